"""A tenant's choices: one typed model with every knob, defaults from the source documents (the letter in each comment).

Frozen, and unknown keys are errors: a misspelt knob must never pass for a setting.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.entry import Kind

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Tokens = Annotated[int, Field(ge=0, le=1_000_000)]


class _Knobs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RankingFormula(StrEnum):
    """L7: each source document has its own; the tenant chooses."""

    PRODUCT = "product"  # A: similarity x decay x confidence
    RECENCY = "recency"  # B: 0.5 similarity + 0.3 recency + 0.2 importance
    IMPORTANCE = "importance"  # D: 0.6 similarity + 0.3 importance + 0.1 freshness


class Fusion(StrEnum):
    MINMAX = "minmax"  # weighted sum of min-max scaled scores
    RRF = "rrf"  # reciprocal ranks


class Window(StrEnum):
    """W3: which recent turns are candidates for the prompt."""

    FULL = "full"
    LAST_TURNS = "last_turns"
    TOKENS = "tokens"
    IMPORTANCE = "importance"


class Isolation(StrEnum):
    """Where a tenant's entries lie in a shared index (Weaviate): in a shard of its own, or in a collection of its own."""

    SHARD = "shard"
    COLLECTION = "collection"


class GatePolicy(_Knobs):
    kinds: frozenset[Kind] = Field(default=frozenset(Kind), description="Kinds that may be stored at all.")
    max_entry_chars: int = Field(default=500, ge=20, le=4000, description="Longer sentences are no atomic entries.")
    max_entries_per_turn: int = Field(default=12, ge=1, le=100)
    review: bool = Field(default=False, description="L17: entries wait as `pending` for a reviewer.")


class MergePolicy(_Knobs):
    start_confidence: Share = 0.6  # A
    confirm_step: Share = 0.1  # A
    same_fact: Share = Field(
        default=0.92, description="A: calibrated probability that two entries say the same; not a raw cosine."
    )


class DecayRates(_Knobs):
    """Lambda a day, by kind (B): none for preferences, slow for facts, fast for finished tasks."""

    preference: float = Field(default=0.0, ge=0)
    constraint: float = Field(default=0.0, ge=0)
    profile: float = Field(default=0.0, ge=0)
    fact: float = Field(default=0.002, ge=0)
    lesson: float = Field(default=0.002, ge=0)
    episode: float = Field(default=0.01, ge=0)
    task_result: float = Field(default=0.01, ge=0)  # A: 0.55 after 60 days

    def of(self, kind: Kind) -> float:
        return float(getattr(self, kind.value))


class RecallPolicy(_Knobs):
    enabled: bool = True
    formula: RankingFormula = RankingFormula.PRODUCT
    decay: DecayRates = DecayRates()
    vector_candidates: int = Field(default=50, ge=1, le=500)
    keyword_candidates: int = Field(default=50, ge=1, le=500)
    fusion: Fusion = Fusion.MINMAX
    keyword_weight: float = Field(
        default=0.45, ge=0, le=4, description="Weight of keywords beside late interaction's 1."
    )
    threshold: Share = Field(
        default=0.5, description="Least calibrated probability of relevance; below it nothing is returned."
    )
    limit: int = Field(default=5, ge=0, le=50)  # A, D: 3 to 5 entries
    standing: int = Field(
        default=2, ge=0, le=20, description="Entries on how to answer ('always in Chinese') recalled whatever is asked."
    )
    kinds: frozenset[Kind] = frozenset(Kind)
    show_outdated: bool = Field(default=True, description="L6: show what an entry replaced beside it, marked.")
    rerank: bool = Field(default=False, description="Let the Reranker judge last, where one is configured.")


class SectionCaps(_Knobs):
    summary: Tokens = 800  # A
    memories: Tokens = 600  # A
    documents: Tokens = 2000  # A
    slots: Tokens = 400
    memories_share: Share = 0.2  # D: at most 20 % of the budget


class PromptPolicy(_Knobs):
    model: str = Field(default="gpt-4o", max_length=200, description="Target model: chooses the tokenizer.")
    budget_tokens: int = Field(default=6000, ge=1, le=2_000_000)  # A
    output_reserve: Tokens = 0
    sections: SectionCaps = SectionCaps()
    window: Window = Window.TOKENS
    last_turns: int = Field(default=10, ge=1, le=200)  # B: 5 to 20
    system: str = Field(default="", max_length=20_000, description="System prompt where the call gives none.")


class SessionPolicy(_Knobs):
    ttl_seconds: int = Field(default=1800, ge=1, le=30 * 86400)  # A: 30 min, renewed by every interaction
    token_seconds: int = Field(default=3600, ge=1, le=30 * 86400)
    max_turns: int = Field(default=10_000, ge=1, le=1_000_000)
    preload: int = Field(default=5, ge=0, le=50, description="T5: memories loaded once when a session opens.")


class Quotas(_Knobs):
    requests_per_minute: int = Field(default=6000, ge=1)
    turns_per_call: int = Field(default=1000, ge=1, le=5000)
    entries_per_user: int = Field(default=10_000, ge=1, le=1_000_000)
    sessions_per_user: int = Field(default=100, ge=1, le=10_000)


class Policy(_Knobs):
    gate: GatePolicy = GatePolicy()
    merge: MergePolicy = MergePolicy()
    recall: RecallPolicy = RecallPolicy()
    prompt: PromptPolicy = PromptPolicy()
    session: SessionPolicy = SessionPolicy()
    quotas: Quotas = Quotas()
    languages: tuple[str, ...] = ("zh", "en")
    isolation: Isolation = Field(
        default=Isolation.SHARD,
        description="Of a new tenant. One that has entries is moved by `strata tenants move`. The local index knows no difference.",
    )

    @model_validator(mode="after")
    def _reserve_fits(self) -> "Policy":
        if self.prompt.output_reserve >= self.prompt.budget_tokens:
            raise ValueError("prompt.output_reserve must be less than prompt.budget_tokens")
        return self
