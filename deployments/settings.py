"""What an operator may set, as typed builder arguments. Unknown keys are errors; secrets are references, never values.

The stores' settings are shared by the `context` and `memory` applications: one block in the Serve file, used twice.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.settings import EncoderSettings, RerankerSettings, SummarizerSettings, strata_home
from storage.index.weaviate.settings import WeaviateSettings

Topology = Literal["split", "fused"]
"""Three applications that scale apart, or one process for a small machine."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SecretSettings(_Settings):
    """References (`env:NAME`, `file:/path`). None: made once under the home, readable by its owner alone (embedded tier)."""

    master_key: str | None = Field(default=None, description="Wraps the users' index keys; 32 bytes, base64.")
    token_keys: dict[str, str] | None = Field(default=None, description="Signing keys of session tokens, by key id.")
    token_key_id: str | None = Field(default=None, description="Which of token_keys signs; the others only verify.")
    pepper: str | None = Field(default=None, description="Keys the hash of tenant keys.")
    receipt_key: str | None = Field(default=None, description="Signs erasure receipts (Ed25519): 32 bytes, base64.")


class Deadlines(_Settings):
    """Seconds. Each store call waits at most this long; the request's own deadline bounds their sum."""

    sessions_s: float = Field(default=2.0, gt=0, le=60)
    records_s: float = Field(default=5.0, gt=0, le=60)
    index_s: float = Field(default=2.0, gt=0, le=60)
    embed_s: float = Field(default=5.0, gt=0, le=60)
    rerank_s: float = Field(default=5.0, gt=0, le=60)
    request_s: float = Field(default=15.0, gt=0, le=300)


class StoreSettings(_Settings):
    """The three stores and the secrets around them."""

    home: Path = Field(default_factory=strata_home)
    sessions_url: str = Field(
        default="bundled",
        description="`bundled` (a Valkey on a local socket), a URL of Redis, or a reference (`env:NAME`, `file:/path`) to one.",
    )
    records_url: str = Field(
        default="embedded",
        description="`embedded` (SQLite under the home), a database URL, or a reference (`env:NAME`, `file:/path`) to one.",
    )
    index: Literal["local"] | WeaviateSettings = Field(
        default="local", description="`local` (files under the home) or a Weaviate cluster."
    )
    tenants_dir: Path | None = Field(default=None, description="Tenant files to declare at start (embedded tier).")
    secrets: SecretSettings = SecretSettings()
    deadlines: Deadlines = Deadlines()
    policy_poll_s: float = Field(default=2.0, gt=0, le=60)


class TelemetrySettings(_Settings):
    """What is told to the outside. Never a user's words: spans, metrics and log lines hold ids, sizes and times."""

    traces: str | None = Field(
        default=None,
        description="Where spans go: an OTLP/HTTP endpoint (http://collector:4318), a reference to one, or None for no tracing.",
    )
    sampling: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Part of the traces that begin here and are kept; a caller's decision is honoured.",
    )
    exporter: str | None = Field(
        default=None,
        description="module:function that makes a SpanExporter, in place of OTLP; for tests and special collectors.",
    )


class InferenceArgs(_Settings):
    """Arguments of the `inference` application. A model that is None has no deployment."""

    embedder: EncoderSettings = EncoderSettings()
    reranker: RerankerSettings | None = None
    summarizer: SummarizerSettings | None = None
    telemetry: TelemetrySettings = TelemetrySettings()


class ContextArgs(_Settings):
    """Arguments of the `context` application."""

    stores: StoreSettings = StoreSettings()
    inference_app: str = "inference"
    rerank: bool = False
    telemetry: TelemetrySettings = TelemetrySettings()


class CuratorSettings(_Settings):
    poll_s: float = Field(default=1.0, gt=0, le=60, description="How often to look for work that nobody announced.")
    batch: int = Field(default=32, ge=1, le=1000)
    lease_s: float = Field(default=30.0, gt=0, le=3600)
    grace_s: float = Field(
        default=40.0, gt=0, le=7200, description="Longer than deadline + lease: when a delete is verified."
    )
    sweep_s: float = Field(default=5.0, gt=0, le=3600, description="Rest between two steps of the sweeper.")
    sweep_page: int = Field(default=500, ge=1, le=5000, description="Entries of each side that a step compares.")
    sweep_rest_s: float = Field(
        default=3600.0, gt=0, description="How long a tenant that was compared to its end is left alone."
    )


class MemoryArgs(_Settings):
    """Arguments of the `memory` application."""

    stores: StoreSettings = StoreSettings()
    curator: CuratorSettings = CuratorSettings()
    inference_app: str = "inference"
    telemetry: TelemetrySettings = TelemetrySettings()

    @model_validator(mode="after")
    def _grace_outlasts_a_stalled_worker(self) -> "MemoryArgs":
        _check_grace(self.stores, self.curator)
        return self


class FusedArgs(_Settings):
    """Arguments of the one application that holds everything."""

    embedder: EncoderSettings = EncoderSettings()
    stores: StoreSettings = StoreSettings()
    curator: CuratorSettings = CuratorSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @model_validator(mode="after")
    def _grace_outlasts_a_stalled_worker(self) -> "FusedArgs":
        _check_grace(self.stores, self.curator)
        return self


def _check_grace(stores: StoreSettings, curator: CuratorSettings) -> None:
    deadlines = stores.deadlines
    longest = max(deadlines.sessions_s, deadlines.records_s, deadlines.index_s, deadlines.embed_s)
    least = max(curator.lease_s + longest, 2 * stores.policy_poll_s)
    if curator.grace_s <= least:
        raise ValueError(
            f"curator.grace_s must be over {least:g}, which is curator.lease_s and the longest of stores.deadlines: a deletion "
            "is verified when no stalled worker can write any more"
        )
