"""What an operator may set of a Weaviate index."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class WeaviateSettings(BaseModel):
    """One Weaviate cluster. Secrets are references (`env:NAME`, `file:/path`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    http: str = Field(description="REST address, such as http://weaviate:8080 or https://….")
    grpc: str = Field(description="gRPC address as host:port, such as weaviate-grpc:50051.")
    grpc_tls: bool = False
    api_key: str | None = Field(default=None, description="Reference to the API key; None: anonymous access.")
    collection: str = Field(
        default="StrataMemories",
        pattern=r"^[A-Z][A-Za-z0-9]{0,40}$",
        description="What the collections' names begin with; the embedding model's key follows.",
    )
    vector_index: Literal["flat", "hnsw", "dynamic"] = Field(
        default="flat",
        description="Of the shared collection: flat is exact, and right up to some 100,000 entries a tenant.",
    )
    large_tenant_index: Literal["flat", "hnsw", "dynamic"] = Field(
        default="hnsw", description="Of the collection that a tenant with `isolation: collection` has of its own."
    )
    replication_factor: int = Field(default=1, ge=1, le=9)
    active_tenants: int = Field(
        default=1_500,
        ge=1,
        description="How many tenants may be awake at once: six open files each, below the server's file limit.",
    )
    idle_s: float = Field(default=900.0, gt=0, description="A tenant that nobody asked for so long is put to sleep.")
