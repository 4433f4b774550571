"""What a receipt answers."""

from datetime import datetime

from pydantic import Field

from deployments.edge.bodies.fields import Answer


class StoreAnswer(Answer):
    before: int = Field(description="What the store was found to hold.")
    after: int | None = Field(description="What the last check found; null before the first one. Only 0 is done.")
    method: str = Field(description="How it was removed, in our words.")
    at: datetime | None = Field(description="When that was found.")


class ReceiptAnswer(Answer):
    """Proof of a deletion."""

    id: str
    action: str = Field(description="delete, delete_all, erase_user or erase_tenant.")
    user_id: str | None = Field(description="Null where a whole tenant went.")
    count: int = Field(description="How many memories it took.")
    requested_at: datetime
    completed_at: datetime | None = Field(description="Null while any store is still to be checked.")
    stores: dict[str, StoreAnswer]
    signature: str | None = Field(
        description="A compact JWS (EdDSA, Ed25519) whose payload is the rest of this receipt as canonical JSON (keys sorted, no white "
        "space, without `signature`); its key is at GET /v1/receipts/keys. Null while the deletion is not complete."
    )


class PublicKey(Answer):
    """RFC 7517, RFC 8037."""

    kty: str
    crv: str
    x: str
    kid: str
    alg: str
    use: str


class PublicKeys(Answer):
    keys: list[PublicKey]
