"""Idempotency-Keys on the Redis protocol. Implements storage.protocols.IdempotencyStore (P34)."""

from memory.errors import Conflict, IdempotencyMismatch
from memory.scope import Scope
from storage.protocols import Claim
from storage.sessions import scripts
from storage.sessions.client import Call, SessionClient
from storage.sessions.forgetting import count_claims, forget_claims
from storage.sessions.keys import claim_keys, tenant_fence

DAY_MS = 24 * 3600 * 1000


class RedisIdempotency:
    """A claim is one key: the body's digest, and, once the work is done, the answer. It lives for the lease while the work
    runs and for `keep_ms` afterwards."""

    def __init__(self, client: SessionClient, *, keep_ms: int = DAY_MS) -> None:
        self._client = client
        self._keep_ms = keep_ms
        client.register(scripts.CLAIMS)
        client.register(scripts.FORGETTING)

    async def claim(self, scope: Scope, key: str, digest: str, lease_s: float) -> Claim:
        # Not repeated on a lost connection: the repetition would meet its own claim and call it busy.
        call = Call("claim", claim_keys(scope, key), (digest, max(int(lease_s * 1000), 1)))
        async with self._client.deadline():
            (reply,) = await self._client.run(call)
        match reply[0]:
            case b"run":
                return Claim("run")
            case b"done":
                return Claim("done", int(reply[1]), reply[2])
            case b"other":
                raise IdempotencyMismatch
        raise Conflict("Idempotency-Key: a request with this key is still running; try again when it has ended.")

    async def finish(self, scope: Scope, key: str, digest: str, status: int, body: bytes) -> None:
        """The first answer stays: where a lease ran out and two workers did the same, every retry gets the same one. Of a user or a
        tenant that is being erased no answer is kept."""
        keys = claim_keys(scope, key)
        finish = Call("finish", keys, (digest, status, body, self._keep_ms))
        async with self._client.deadline():
            await self._client.run(finish, repeat=True)
            # Afterwards: an erasure that began in between either sees the answer or is seen.
            (fenced,) = await self._client.run(Call("fenced", (tenant_fence(scope),)), repeat=True)
            if fenced:
                await self._client.run(Call("forget", keys[:1]), repeat=True)

    async def release(self, scope: Scope, key: str, digest: str) -> None:
        call = Call("release", claim_keys(scope, key), (digest,))
        async with self._client.deadline():
            await self._client.run(call, repeat=True)

    async def forget_user(self, scope: Scope) -> int:
        return await forget_claims(self._client, scope)

    async def count_user(self, scope: Scope) -> int:
        return await count_claims(self._client, scope)
