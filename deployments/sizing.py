"""How large an installation has to be: pure reckoning from what was measured (sizing_figures.yaml, made by benchmarks.capacity).

Every line says where it comes from: MEASURED (the range that was measured holds the demand), or EXTRAPOLATED, and from what.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MB, GB = 2**20, 2**30
DAY_S = 86_400
CACHE_MB = 128
"""What a replica keeps of users' vectors, with the local index."""
OPEN_FILES = 64
"""Partitions that a replica holds open, with the local index."""
MARGIN = 1.25
"""Memory asked for above what was seen: a limit that is met kills the process."""


class Tier(StrEnum):
    EMBEDDED = "embedded"
    PRODUCTION = "production"


class Basis(StrEnum):
    MEASURED = "measured"
    EXTRAPOLATED = "extrapolated"


class Demand(BaseModel):
    """What is to be carried. Rates are of the busiest minutes, not of a day's mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenants: int = Field(ge=1)
    users_per_tenant: int = Field(ge=1)
    entries_per_user: int = Field(ge=0)
    turns_per_second: float = Field(ge=0)
    contexts_per_second: float = Field(ge=0)
    searches_per_second: float = Field(default=0.0, ge=0)
    tier: Tier = Tier.PRODUCTION
    kept_share: float = Field(default=0.2, ge=0, le=1, description="Of the turns: those from which an entry is kept.")
    tokens_per_entry: int = Field(default=24, ge=1, le=512)
    turns_per_session: int = Field(default=20, ge=1)
    session_s: float = Field(default=600.0, ge=0, description="From a session's first turn to its last.")
    session_ttl_s: float = Field(default=1800.0, ge=1)
    utilisation: float = Field(default=0.6, gt=0, le=0.95, description="Of a core, at the busiest: what queues allow.")
    spare: int = Field(
        default=1, ge=0, description="Replicas that may be away while the others carry all (production)."
    )
    days: int = Field(default=30, ge=0, description="For how long the audit of reads is kept.")

    @property
    def entries(self) -> int:
        return self.tenants * self.users_per_tenant * self.entries_per_user

    @property
    def live_sessions(self) -> float:
        """Little's law: sessions begin at turns / turns_per_session, and each is kept until its time to live is over."""
        return self.turns_per_second / self.turns_per_session * (self.session_s + self.session_ttl_s)


@dataclass(frozen=True, slots=True)
class Deployment:
    """`busy`: cores that all replicas together use at the demanded rates. `cores`, `memory_mb`: to be asked for, each replica."""

    name: str
    replicas: int
    busy: float
    cores: float
    memory_mb: int
    basis: Basis
    why: str


@dataclass(frozen=True, slots=True)
class Line:
    """One store's size, or another figure. `amount` in `unit`."""

    what: str
    amount: float
    unit: str
    basis: Basis
    why: str


@dataclass(frozen=True, slots=True)
class Size:
    deployments: tuple[Deployment, ...]
    nodes: tuple[Deployment, ...]
    """What each machine of the cluster runs beside the replicas."""
    stores: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def cores(self) -> float:
        return sum(each.replicas * each.cores for each in (*self.deployments, *self.nodes))

    @property
    def memory_mb(self) -> int:
        return sum(each.replicas * each.memory_mb for each in (*self.deployments, *self.nodes))


REPLICAS = {
    "assembler": "ContextAssembler",
    "memory api": "MemoryApi",
    "embedder": "Embedder",
    "curator": "Curator",
}
"""The kinds of process that scale, as the figures name them."""
NODES = {"HAProxy": "HAProxy", "ray system": "Ray"}
SESSIONS, RECORDS, INDEX = "session server", "records server", "index server"
_STORES = {Tier.EMBEDDED: ("sqlite", "local"), Tier.PRODUCTION: ("mysql", "weaviate")}


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, as the file has it."""

    service: Mapping[str, Any]
    records: Mapping[str, Mapping[str, Any]]
    sessions: Mapping[str, Any]
    index: Mapping[str, Mapping[str, Any]]
    tenants: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, str] = field(default_factory=dict)
    """By group and part: the day and the machine."""

    def calls(self, tier: Tier) -> Mapping[str, Any]:
        """What calls cost in this tier; in the embedded one where this was not measured."""
        found: Mapping[str, Any] = self.service.get(tier.value, self.service[Tier.EMBEDDED.value])
        return found

    def busy(self, kind: str, demand: Demand) -> float:
        """Cores that this kind of process uses in all: its calls, and what it does for itself."""
        service = self.calls(demand.tier)
        cpu = service["cpu_ms"]
        rates = (
            ("turn", demand.turns_per_second * (1 - demand.kept_share)),
            ("kept_turn", demand.turns_per_second * demand.kept_share),
            ("context", demand.contexts_per_second),
            ("search", demand.searches_per_second),
        )
        ms_per_s = sum(rate * cpu[call].get(kind, 0.0) for call, rate in rates)
        return float(ms_per_s + service["idle_ms_per_s"].get(kind, 0.0)) / 1000

    def resident_mb(self, kind: str, demand: Demand) -> float:
        """Of one process of the kind; of all of it where it is many small ones (Ray's, HAProxy's) that come once a machine."""
        memory = self.calls(demand.tier)["memory_mb"].get(kind, {"resident": 0.0, "processes": 1})
        return float(memory["resident"]) / (memory["processes"] if kind in REPLICAS else 1)


def size(demand: Demand, figures: Figures) -> Size:
    """The least that carries `demand` with its headroom."""
    deployments = tuple(_deployment(kind, name, demand, figures) for kind, name in REPLICAS.items())
    nodes = tuple(_node(kind, name, demand, figures) for kind, name in NODES.items())
    return Size(deployments, nodes, tuple(_stores(demand, figures)), tuple(_notes(demand, figures)))


def working_replicas(busy: float, demand: Demand) -> int:
    """The least that carry it, without spare ones. Each uses one core at most: a replica is one event loop."""
    return max(1, math.ceil(busy / demand.utilisation - 1e-9))


def _asked(busy: float, demand: Demand) -> float:
    """Cores to ask for, in twentieths, a tenth at least."""
    return max(0.1, math.ceil(20 * busy / demand.utilisation - 1e-9) / 20)


def _deployment(kind: str, name: str, demand: Demand, figures: Figures) -> Deployment:
    busy = figures.busy(kind, demand)
    working = working_replicas(busy, demand)
    replicas = working + (demand.spare if demand.tier is Tier.PRODUCTION else 0)
    cores = _asked(busy / working, demand)  # what each needs while the spare ones are away
    memory = figures.resident_mb(kind, demand)
    if demand.tier is Tier.EMBEDDED and kind in ("assembler", "memory api", "curator"):
        memory += CACHE_MB + OPEN_FILES * figures.index["local"]["open_file_kb"] / 1024
    basis, why = _cpu_basis(demand, figures)
    return Deployment(name, replicas, round(busy, 3), cores, math.ceil(memory * MARGIN / 16) * 16, basis, why)


def _node(kind: str, name: str, demand: Demand, figures: Figures) -> Deployment:
    busy = figures.busy(kind, demand)
    basis, why = _cpu_basis(demand, figures)
    return Deployment(
        f"{name} (each machine)",
        1,
        round(busy, 3),
        _asked(busy, demand),
        math.ceil(figures.resident_mb(kind, demand) * MARGIN / 16) * 16,
        basis,
        why,
    )


def _cpu_basis(demand: Demand, figures: Figures) -> tuple[Basis, str]:
    beyond = []
    service = figures.calls(demand.tier)
    rate, entries = service["rate"], service["entries_per_user"]
    asked = demand.turns_per_second + demand.contexts_per_second + demand.searches_per_second
    if asked > rate:
        beyond.append(f"CPU a call as at {rate:g} calls/s")
    if demand.entries_per_user > entries:
        beyond.append(f"users of {entries:,} entries")
    if demand.tier.value not in figures.service:
        beyond.append("the embedded tier's clients of the stores")
    if beyond:
        return Basis.EXTRAPOLATED, "from " + "; ".join(beyond)
    return Basis.MEASURED, f"at {rate:g} calls/s, users of {entries:,} entries"


def entry_bytes(figure: Mapping[str, Any], tokens: int) -> float:
    """Between the two lengths that were measured, and beyond them, along their straight line."""
    short, long = figure["short"], figure["long"]
    share = (tokens - short["tokens"]) / (long["tokens"] - short["tokens"])
    return max(0.0, float(short["bytes"] + share * (long["bytes"] - short["bytes"])))


def _stores(demand: Demand, figures: Figures) -> Iterable[Line]:
    records, index = _STORES[demand.tier]
    yield from _sql(demand, figures, records)
    per_session = figures.sessions["session_bytes"] + demand.turns_per_session * figures.sessions["turn_bytes"]
    seen = figures.sessions["sessions"]
    basis = Basis.MEASURED if demand.live_sessions <= seen else Basis.EXTRAPOLATED
    why = f"{demand.live_sessions:,.0f} live sessions of {per_session:,} bytes; seen with {seen:,}"
    yield Line("sessions: memory", demand.live_sessions * per_session / MB, "MB", basis, why)
    yield Line("sessions: CPU", figures.busy(SESSIONS, demand), "cores", *_cpu_basis(demand, figures))
    yield from _index(demand, figures, index)


def _sql(demand: Demand, figures: Figures, wanted: str) -> Iterable[Line]:
    used = wanted if wanted in figures.records else "sqlite"
    figure, rows = figures.records[used], figures.rows.get(used, {}).get("rows", 0)
    bytes_each = entry_bytes(figure, demand.tokens_per_entry)
    basis, why = Basis.MEASURED, f"{bytes_each:,.0f} bytes an entry"
    if used != wanted:
        basis, why = Basis.EXTRAPOLATED, f"{why}, as in {used}"
    if demand.entries > max(rows, figure["entries"]):
        basis, why = Basis.EXTRAPOLATED, f"{why}; seen up to {max(rows, figure['entries']):,} entries"
    yield Line("SQL: entries", demand.entries * bytes_each / GB, "GB", basis, why)
    per_day = demand.contexts_per_second * DAY_S * figure["context_bytes"]
    yield Line(
        f"SQL: audit of reads, {demand.days} days",
        per_day * demand.days / GB,
        "GB",
        Basis.EXTRAPOLATED,
        f"{figure['context_bytes']:,} bytes a context call, were the busiest rate all day's",
    )
    yield from _server(demand, figures, RECORDS, "SQL")


def _index(demand: Demand, figures: Figures, wanted: str) -> Iterable[Line]:
    used = wanted if wanted in figures.index else "local"
    figure = figures.index[used]
    bytes_each = entry_bytes(figure, demand.tokens_per_entry)
    seen = max(figure["entries"], figures.tenants.get("tenants", 0) * 10 if used == "local" else 0)
    basis = Basis.MEASURED if used == wanted and demand.entries <= seen else Basis.EXTRAPOLATED
    why = f"{bytes_each:,.0f} bytes an entry, {figure['partition_bytes']:,} a tenant"
    why += f", as in the {used} index" if used != wanted else f"; seen up to {seen:,} entries"
    total = demand.entries * bytes_each + demand.tenants * figure["partition_bytes"]
    yield Line("index: disk", total / GB, "GB", basis, why)
    yield from _server(demand, figures, INDEX, "index")
    if "tenant_memory_kb" in figure:
        awake = min(demand.tenants, figure["awake_at_most"])
        memory = awake * figure["tenant_memory_kb"] / 1024 + figure["empty_mb"]
        told = f"{awake:,} tenants awake of {figure['tenant_memory_kb']:,.0f} kB, entries of {figure['tenant_entries']} each"
        beyond = demand.entries / demand.tenants > figure["tenant_entries"] or awake > figure["tenants"]
        yield Line("index: memory", memory, "MB", Basis.EXTRAPOLATED if beyond else Basis.MEASURED, told)


def _server(demand: Demand, figures: Figures, kind: str, name: str) -> Iterable[Line]:
    """Its CPU, where the tier was measured with such a server on the same machine."""
    if kind in figures.calls(demand.tier)["memory_mb"]:
        yield Line(f"{name}: CPU of the server", figures.busy(kind, demand), "cores", *_cpu_basis(demand, figures))


def _notes(demand: Demand, figures: Figures) -> Iterable[str]:
    seen = figures.tenants.get("tenants", 0)
    if demand.tenants > seen:
        yield f"{demand.tenants:,} tenants: {seen:,} were measured."
    if demand.tier is Tier.EMBEDDED and demand.entries > 10_000_000:
        yield "The embedded tier is one machine and one SQLite: over some millions of entries choose the production tier."
    if demand.entries_per_user > 100_000:
        yield "Over 100,000 entries a user an exact scan takes over 20 ms: give such a tenant a collection of its own (hnsw)."
    if demand.contexts_per_second and demand.days:
        yield "The audit grows with every context call: delete its old rows by your own rules (docs/capacity.md)."
