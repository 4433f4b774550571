"""`strata size`: the reckoning, on figures made up so that it can be done in the head; and that the committed ones can be read."""

import json
import math

import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

from benchmarks.capacity import document
from benchmarks.capacity.__main__ import merged
from deployments.cli.main import app
from deployments.cli.size import FIGURES, read_figures
from deployments.sizing import Basis, Demand, Figures, Tier, entry_bytes, size, working_replicas
from memory.errors import ConfigError

CPU = {
    "turn": {"memory api": 2.0, "HAProxy": 1.0},
    "kept_turn": {"memory api": 12.0, "embedder": 10.0, "curator": 5.0, "HAProxy": 1.0},
    "context": {"assembler": 10.0, "embedder": 20.0, "HAProxy": 1.0, "session server": 0.5},
    "search": {"memory api": 8.0, "embedder": 20.0, "HAProxy": 1.0},
    "entry": {"curator": 5.0},
}
KINDS = ("assembler", "memory api", "embedder", "curator", "HAProxy", "ray system", "session server")
BYTES = {"short": {"tokens": 10, "bytes": 4000}, "long": {"tokens": 50, "bytes": 8000}, "entries": 4000}
SERVICE = {
    "cpu_ms": CPU,
    "idle_ms_per_s": dict.fromkeys(KINDS, 0.0) | {"ray system": 100.0},
    "memory_mb": {
        kind: {"processes": 2 if kind == "HAProxy" else 1, "resident": 320.0, "unique": 200.0} for kind in KINDS
    },
    "rate": 6.0,
    "entries_per_user": 100,
}
FIGURES_MADE_UP = Figures(
    service={"embedded": SERVICE},
    records={"sqlite": BYTES | {"context_bytes": 1000}},
    sessions={"session_bytes": 2000, "turn_bytes": 100, "sessions": 300},
    index={"local": BYTES | {"partition_bytes": 80_000, "open_file_kb": 160.0}},
    tenants={"tenants": 10_000},
    rows={"sqlite": {"rows": 1_000_000}},
    machine={},
)
WEAVIATE = BYTES | {
    "partition_bytes": 30_000, "empty_mb": 100, "awake_at_most": 1500, "tenant_memory_kb": 1024, "tenants": 300, "tenant_entries": 100,
}  # fmt: skip


def demand(**changes) -> Demand:
    plain = {
        "tenants": 10, "users_per_tenant": 10, "entries_per_user": 100, "turns_per_second": 0, "contexts_per_second": 0, "tier": "embedded",
    }  # fmt: skip
    return Demand(**(plain | changes))


def deployment(found, name):
    return next(each for each in (*found.deployments, *found.nodes) if each.name.startswith(name))


def line(found, what):
    return next(each for each in found.stores if each.what.startswith(what))


@pytest.mark.parametrize(
    ("busy", "utilisation", "replicas"),
    [(0.0, 0.6, 1), (0.59, 0.6, 1), (0.6, 0.6, 1), (0.61, 0.6, 2), (1.2, 0.6, 2), (6.0, 0.5, 12), (0.1 + 0.2, 0.3, 1)],
)
def test_replicas_keep_each_below_the_utilisation(busy, utilisation, replicas):
    assert working_replicas(busy, demand(utilisation=utilisation)) == replicas


@pytest.mark.parametrize(
    ("changes", "name", "busy", "replicas", "cores"),
    [
        ({"contexts_per_second": 5}, "Embedder", 0.1, 1, 0.2),
        ({"contexts_per_second": 60}, "Embedder", 1.2, 2, 1.0),
        ({"contexts_per_second": 60}, "ContextAssembler", 0.6, 1, 1.0),
        ({"turns_per_second": 100, "kept_share": 0}, "MemoryApi", 0.2, 1, 0.35),
        ({"turns_per_second": 100, "kept_share": 0.5}, "MemoryApi", 0.7, 2, 0.6),
        ({"turns_per_second": 100, "kept_share": 0.5}, "Curator", 0.25, 1, 0.45),
        ({"searches_per_second": 10}, "MemoryApi", 0.08, 1, 0.15),
        ({"contexts_per_second": 60, "tier": "production"}, "Embedder", 1.2, 3, 1.0),  # two carry it while one is away
        ({"contexts_per_second": 60, "tier": "production", "spare": 2}, "Embedder", 1.2, 4, 1.0),
        ({"contexts_per_second": 1, "tier": "production"}, "Curator", 0.0, 2, 0.1),
        ({}, "Ray", 0.1, 1, 0.2),
    ],
)  # fmt: skip
def test_processes_follow_the_rates(changes, name, busy, replicas, cores):
    found = deployment(size(demand(**changes), FIGURES_MADE_UP), name)
    assert (found.busy, found.replicas, found.cores) == (pytest.approx(busy), replicas, pytest.approx(cores))


def test_memory_has_a_margin_and_the_local_index_its_caches():
    embedded, production = (size(demand(tier=tier), FIGURES_MADE_UP) for tier in Tier)
    assert deployment(production, "ContextAssembler").memory_mb == 400  # 320 and a quarter
    assert deployment(embedded, "ContextAssembler").memory_mb == math.ceil((320 + 128 + 10) * 1.25 / 16) * 16
    assert deployment(embedded, "Embedder").memory_mb == 400
    assert (
        deployment(embedded, "HAProxy").memory_mb == 400
    )  # its two processes were measured together and come once a machine


@pytest.mark.parametrize(("tokens", "expected"), [(10, 4000), (30, 6000), (50, 8000), (60, 9000), (1, 3100)])
def test_an_entry_lies_on_the_line_through_both_lengths(tokens, expected):
    assert entry_bytes(BYTES, tokens) == pytest.approx(expected)


def test_stores_are_multiplications():
    found = size(
        demand(contexts_per_second=10, turns_per_second=2, tokens_per_entry=30, days=10, turns_per_session=20),
        FIGURES_MADE_UP,
    )
    assert line(found, "SQL: entries").amount == pytest.approx(10_000 * 6000 / 2**30)
    assert line(found, "SQL: audit").amount == pytest.approx(10 * 86_400 * 1000 * 10 / 2**30)
    assert line(found, "sessions: memory").amount == pytest.approx(240 * 4000 / 2**20)  # 0.1 sessions/s live 2,400 s
    assert line(found, "sessions: CPU").amount == pytest.approx(0.005)
    assert line(found, "index: disk").amount == pytest.approx((10_000 * 6000 + 10 * 80_000) / 2**30)


@pytest.mark.parametrize(
    ("changes", "what", "basis", "why"),
    [
        ({}, "SQL: entries", Basis.MEASURED, "6,"),
        ({"users_per_tenant": 10_000}, "SQL: entries", Basis.EXTRAPOLATED, "seen up to 1,000,000"),
        ({"tier": "production"}, "SQL: entries", Basis.EXTRAPOLATED, "as in sqlite"),
        ({"contexts_per_second": 1}, "SQL: audit", Basis.EXTRAPOLATED, "busiest rate"),
        ({}, "index: disk", Basis.MEASURED, "a tenant"),
        ({"tier": "production"}, "index: disk", Basis.EXTRAPOLATED, "as in the local index"),
        ({"turns_per_second": 2}, "sessions: memory", Basis.MEASURED, "240 live sessions"),
        ({"turns_per_second": 4}, "sessions: memory", Basis.EXTRAPOLATED, "seen with 300"),
    ],
)  # fmt: skip
def test_every_line_says_where_it_comes_from(changes, what, basis, why):
    found = line(size(demand(tokens_per_entry=30, **changes), FIGURES_MADE_UP), what)
    assert found.basis is basis and why in found.why


@pytest.mark.parametrize(
    ("changes", "basis", "why"),
    [
        ({"contexts_per_second": 6}, Basis.MEASURED, "at 6 calls/s"),
        ({"contexts_per_second": 7}, Basis.EXTRAPOLATED, "6 calls/s"),
        ({"entries_per_user": 101}, Basis.EXTRAPOLATED, "users of 100 entries"),
        ({"tier": "production"}, Basis.EXTRAPOLATED, "embedded tier's clients"),
    ],
)
def test_cpu_says_how_far_it_was_measured(changes, basis, why):
    found = deployment(size(demand(**changes), FIGURES_MADE_UP), "Embedder")
    assert found.basis is basis and why in found.why


def test_servers_that_were_measured_have_their_share():
    mysql = BYTES | {"context_bytes": 2000}
    cpu = {call: by_kind | {"records server": 2.0, "embedder": 40.0} for call, by_kind in CPU.items()}
    memory = SERVICE["memory_mb"] | {"records server": {"processes": 1, "resident": 500.0, "unique": 500.0}}
    production = SERVICE | {"cpu_ms": cpu, "memory_mb": memory}
    figures = Figures(
        **{
            **{name: getattr(FIGURES_MADE_UP, name) for name in ("sessions", "tenants", "rows", "machine")},
            "service": {"embedded": SERVICE, "production": production},
            "records": {**FIGURES_MADE_UP.records, "mysql": mysql},
            "index": {**FIGURES_MADE_UP.index, "weaviate": WEAVIATE},
        }
    )
    found = size(
        demand(tier="production", tenants=2000, contexts_per_second=100, turns_per_second=50, kept_share=0.2), figures
    )
    assert line(found, "SQL: CPU").amount == pytest.approx(0.2 + 0.1)
    assert (
        deployment(found, "Embedder").busy == pytest.approx(6.0) and "clients" not in deployment(found, "Embedder").why
    )
    assert "as in" not in line(found, "SQL: entries").why + line(found, "index: disk").why
    memory = line(found, "index: memory")
    assert (
        memory.amount == pytest.approx(1500 + 100) and memory.basis is Basis.EXTRAPOLATED
    )  # 300 were seen, 1,500 may be awake


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tenants": 20_000}, "10,000 were measured"),
        ({"users_per_tenant": 200_000}, "production tier"),
        ({"entries_per_user": 200_000}, "collection of its own"),
        ({"contexts_per_second": 1}, "audit grows"),
    ],
)
def test_what_one_should_know_is_said(changes, word):
    assert any(word in note for note in size(demand(**changes), FIGURES_MADE_UP).notes)


def test_nothing_is_too_much_for_it_and_more_never_costs_less():
    """Not the machines are bounded here."""
    sizes = [
        size(demand(tier="production", contexts_per_second=rate), FIGURES_MADE_UP)
        for rate in (0, 1, 10, 100, 1000, 1e6)
    ]
    assert [each.cores for each in sizes] == sorted(each.cores for each in sizes)
    assert [each.memory_mb for each in sizes] == sorted(each.memory_mb for each in sizes)


@pytest.mark.parametrize(
    "wrong", [{"tenants": 0}, {"utilisation": 1.0}, {"kept_share": 2}, {"turns_per_second": -1}, {"teams": 3}]
)
def test_a_demand_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValidationError):
        demand(**wrong)


ASKED = [
    *("size", "--tenants", "3", "--users-per-tenant", "5", "--entries-per-user", "10"),
    *("--turns-per-second", "1", "--contexts-per-second", "1"),
]


def test_the_command_reckons_with_the_committed_figures():
    told = CliRunner().invoke(app, [*ASKED, "--json"])
    assert told.exit_code == 0, told.output
    document = json.loads(told.output)
    assert document["demand"]["tier"] == "production"
    assert {each["name"] for each in document["deployments"]} == {
        "ContextAssembler",
        "MemoryApi",
        "Embedder",
        "Curator",
    }
    assert document["cores"] > 0 and document["memory_mb"] > 0 and document["measured"]
    shown = CliRunner().invoke(app, ASKED)
    assert shown.exit_code == 0 and "extrapolated" in shown.output


def test_the_command_names_the_option_that_is_wrong():
    found = CliRunner().invoke(app, [*ASKED, "--utilisation", "2"])
    assert isinstance(found.exception, ConfigError) and "--utilisation" in str(found.exception)


def test_figures_that_are_missing_say_how_to_make_them(tmp_path):
    with pytest.raises(ConfigError, match=r"benchmarks\.capacity --write"):
        read_figures(tmp_path / "none.yaml")


def test_the_page_shows_the_committed_figures(tmp_path):
    """docs/capacity.md is never edited between its marks: it is made from the file, and equals it."""
    page = tmp_path / "capacity.md"
    page.write_text(document.PAGE.read_text("utf-8"), "utf-8")
    document.fill(yaml.safe_load(FIGURES.read_text("utf-8")), page)
    assert page.read_text("utf-8") == document.PAGE.read_text("utf-8"), "run `python -m benchmarks.capacity --fill`"


def test_measuring_one_backend_keeps_the_others_figures():
    known = {"records": {"sqlite": 1, "mysql": 2}, "service": {"embedded": 1}, "rows": {"sqlite": 1}}
    found = {"records": {"sqlite": 3}, "service": {"production": 2}, "sessions": 4}
    assert merged(known, found) == {
        "records": {"sqlite": 3, "mysql": 2}, "service": {"embedded": 1, "production": 2}, "rows": {"sqlite": 1}, "sessions": 4,
    }  # fmt: skip
