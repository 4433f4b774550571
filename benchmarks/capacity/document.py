"""The tables of docs/capacity.md, made from the figures: what stands there is what was measured, and `strata size`'s own words."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from deployments.cli.size import show
from deployments.sizing import Demand, Figures, Tier, size

PAGE = Path(__file__).resolve().parents[2] / "docs" / "capacity.md"
BEGIN, END = "<!-- figures: made by `python -m benchmarks.capacity --fill` -->", "<!-- end of figures -->"
EXAMPLES = (
    ("A product of one team", Demand(
        tenants=1, users_per_tenant=2_000, entries_per_user=100, turns_per_second=2, contexts_per_second=2, tier=Tier.EMBEDDED
    )),
    ("10,000 tenants, 100 million entries", Demand(
        tenants=10_000, users_per_tenant=100, entries_per_user=100, turns_per_second=100, contexts_per_second=100
    )),
)  # fmt: skip
_CALLS = {
    "turn": "a turn from which nothing is kept",
    "kept_turn": "a turn from which an entry is kept, indexed",
    "context": "a context",
    "search": "a search",
    "entry": "an imported entry, indexed",
}


def fill(figures: Mapping[str, Any], page: Path = PAGE) -> None:
    """Puts the tables between the two marks. ValueError where the page has no marks."""
    text = page.read_text("utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no marks `{BEGIN}` and `{END}`")
    page.write_text(f"{head}{BEGIN}\n\n{rendered(figures)}\n{END}{tail}", "utf-8")


def rendered(figures: Mapping[str, Any]) -> str:
    """Markdown."""
    machine = figures["machine"]
    told = ", ".join(f"{name} {machine[name]}" for name in ("python", "ray", "torch", "sqlalchemy") if name in machine)
    parts = [
        *(f"- {group}: {where}" for group, where in sorted(figures["measured"].items())),
        f"\nThe last of these with {machine['memory_gb']} GB; {told}.\n",
        *(_table(f"### CPU, milliseconds: {tier} tier", *_cpu(found)) for tier, found in figures["service"].items()),
        *(_table(f"### Memory, MB: {tier} tier", *_memory(found)) for tier, found in figures["service"].items()),
        _table("### Bytes", *_bytes(figures)),
        _table("### Growth", *_growth(figures)),
        _run(figures),
    ]
    parts += [_example(title, demand, figures) for title, demand in EXAMPLES]
    return "\n".join(parts)


def _table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(head)
    lines = ["| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *map(list, rows))]
    return "\n".join([title, "", *lines, ""])


def _cpu(service: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    kinds = list(service["memory_mb"])
    rows = [
        [told, *(f"{service['cpu_ms'][call].get(kind, 0.0):.1f}" for kind in kinds), f"{sum(service['cpu_ms'][call].values()):.1f}"]
        for call, told in _CALLS.items()
    ]  # fmt: skip
    idle = service["idle_ms_per_s"]
    rows.append(["idle, a second", *(f"{idle.get(kind, 0.0):.1f}" for kind in kinds), f"{sum(idle.values()):.1f}"])
    return ["", *kinds, "all"], rows


def _memory(service: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [kind, str(size["processes"]), f"{size['resident']:.0f}", f"{size['unique']:.0f}"]
        for kind, size in service["memory_mb"].items()
    ]
    return ["kind", "processes", "resident", "of these nobody else's"], rows


def _bytes(figures: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for name, found in sorted(figures["records"].items()):
        for length in ("short", "long"):
            what = f"1,000 entries of {found[length]['tokens']} tokens in {name}"
            rows.append([what, f"{found[length]['bytes'] * 1000:,}", "with token vectors, history, audit, all indexes"])
        rows.append([f"a context's audit rows in {name}", f"{found['context_bytes']:,}", "five entries shown"])
    for name, found in sorted(figures["index"].items()):
        for length in ("short", "long"):
            what = f"1,000 entries of {found[length]['tokens']} tokens in the {name} index"
            rows.append([what, f"{found[length]['bytes'] * 1000:,}", "vectors and postings"])
        rows.append([f"a tenant in the {name} index", f"{found['partition_bytes']:,}", "empty"])
        if "open_file_kb" in found:
            rows.append(
                ["an open partition, memory", f"{found['open_file_kb'] * 1024:,.0f}", "of a replica, 100 entries"]
            )
        if "tenant_memory_kb" in found:
            told = f"of the server, {found['tenant_entries']} entries, {found['tenants']} tenants"
            rows.append(["a tenant awake in Weaviate, memory", f"{found['tenant_memory_kb'] * 1024:,}", told])
    sessions = figures["sessions"]
    rows.append(["a session", f"{sessions['session_bytes']:,}", "empty"])
    rows.append(["a turn in a session", f"{sessions['turn_bytes']:,}", f"{sessions['characters']} characters"])
    return ["what", "bytes", ""], rows


def _growth(figures: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = []
    tenants = figures["tenants"]
    ten, all_ = tenants["with_ten"], tenants["with_all"]
    told = {
        "key_ms": "a key looked up",
        "search_ms": "a search, tenants in turn",
        "poll_ms": "the replicas' poll of policies",
    }
    for name, what in told.items():
        rows.append([f"{what}, ms", f"{ten[name]:.2f} (10 tenants)", f"{all_[name]:.2f} ({tenants['tenants']:,})"])
    rows.append(
        [
            "a tenant declared, its partition made, ms",
            "",
            f"{tenants['declare_ms']:.1f} + {tenants['partition_ms']:.1f}",
        ]
    )
    rows.append(
        ["all partitions looked at, at a start, s", "", f"{tenants['start_check_s']:.1f} ({tenants['tenants']:,})"]
    )
    rows.append(["partitions on disk, ten entries each, MB", "", f"{tenants['index_bytes'] / 2**20:,.0f}"])
    for name, found in sorted(figures["rows"].items()):
        few, many = found["calls"]["1000"], found["calls"][str(found["rows"])]
        for call in few:
            sizes = f"{_times(few[call])} (1,000 rows)", f"{_times(many[call])} ({found['rows']:,})"
            rows.append([f"{name}: {call}, ms", *sizes])
    return ["what", "few", "many"], rows


def _times(call: Mapping[str, float]) -> str:
    """The median and, of a server, its CPU in brackets."""
    cpu = f", server's CPU {call['server_cpu_ms']:.2f}" if "server_cpu_ms" in call else ""
    return f"{call['p50_ms']:.2f}{cpu}"


def _run(figures: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{found['rows']:,} rows in {name}" for name, found in sorted(figures["rows"].items()))
    tenants = figures["tenants"]["tenants"]
    return (
        f"Run: {tenants:,} tenants of the embedded tier with a partition each; {rows}; the calls timed at both ends.\n"
    )


def _example(title: str, demand: Demand, figures: Mapping[str, Any]) -> str:
    known = Figures(**figures)
    sheet = Console(width=110, file=io.StringIO(), color_system=None, legacy_windows=False, force_terminal=False)
    with sheet.capture() as shown:
        show(demand, size(demand, known), known, sheet)
    words = [f"strata size --tenants {demand.tenants} --users-per-tenant {demand.users_per_tenant}"]
    words.append(f"--entries-per-user {demand.entries_per_user} --turns-per-second {demand.turns_per_second:g}")
    words.append(f"--contexts-per-second {demand.contexts_per_second:g} --tier {demand.tier}")
    lines = [line.rstrip() for line in shown.get().splitlines()]
    return "\n".join([f"### {title}", "", "```", "$ " + " ".join(words), *lines, "```", ""])
