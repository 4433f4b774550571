"""Precision and recall of the write gate on our own bilingual sentences: `python -m benchmarks.gate`.

A sentence counts as accepted if any entry comes of it. Precision: accepted and rightly so / accepted. Recall: accepted and
rightly so / should be. `kind` asks for the right kinds of entries as well, `entries` for the very words of each entry
where the data gives them. Rules were tuned on `dev` alone; the mistakes in `test` were never looked at one by one. One author
wrote rules and sentences, so take both as an upper bound: new sentences always score lower the first time.

`--errors dev` lists the sentences that were not judged as labelled.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from memory.gate import judge
from memory.ids import TurnId
from memory.policy import GatePolicy
from memory.turns import NewTurn, Role
from memory.verdict import Judgement

DATA = Path(__file__).parent / "data"
GOALS = {"precision": 0.95, "recall": 0.80}


@dataclass(frozen=True)
class Case:
    text: str
    role: str
    kinds: tuple[str, ...]  # empty: nothing may be kept
    reason: str
    split: str
    language: str
    entries: tuple[str, ...] | None


def cases() -> Iterator[Case]:
    for language in ("zh", "en"):
        for line in (DATA / f"gate_{language}.jsonl").read_text("utf-8").splitlines():
            row: dict[str, Any] = json.loads(line)
            kinds = tuple(row.get("kinds") or ([row["kind"]] if row["kind"] else []))
            entries = tuple(row["entries"]) if "entries" in row else None
            yield Case(row["text"], row["role"], kinds, row["reason"], row["split"], language, entries)


def run(case: Case) -> tuple[Judgement, ...]:
    turn = NewTurn(TurnId("t"), Role(case.role), case.text, 0, datetime(2026, 1, 1, tzinfo=UTC))
    return judge(turn, policy=GatePolicy())


@dataclass
class Score:
    n: int = 0
    positive: int = 0
    accepted: int = 0
    right: int = 0
    kind_right: int = 0
    entries: int = 0
    entries_right: int = 0
    rejected: int = 0
    reason_right: int = 0

    def add(self, case: Case, judgements: tuple[Judgement, ...]) -> None:
        got = [judgement.candidate for judgement in judgements if judgement.candidate]
        self.n += 1
        self.positive += bool(case.kinds)
        self.accepted += bool(got)
        self.right += bool(got and case.kinds)
        kinds = case.kinds * len(got) if len(case.kinds) == 1 else case.kinds
        self.kind_right += bool(got) and sorted(candidate.kind.value for candidate in got) == sorted(kinds)
        if case.entries is not None:
            self.entries += 1
            self.entries_right += [candidate.content for candidate in got] == list(case.entries)
        if not case.kinds and not got:
            self.rejected += 1
            self.reason_right += any(judgement.reason == case.reason for judgement in judgements)

    @property
    def precision(self) -> float:
        return self.right / self.accepted if self.accepted else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.positive if self.positive else 1.0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def table(scores: Iterable[tuple[str, Score]]) -> Table:
    shown = Table(
        "", "sentences", "to keep", "precision", "recall", "kind P", "kind R", "entries", "reasons of rejections"
    )
    for name, score in scores:
        shown.add_row(
            name, str(score.n), str(score.positive), _share(score.right, score.accepted), _share(score.right, score.positive),
            _share(score.kind_right, score.accepted), _share(score.kind_right, score.positive),
            _share(score.entries_right, score.entries), _share(score.reason_right, score.rejected),
        )  # fmt: skip
    return shown


def scored() -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for case in cases():
        judgements = run(case)
        kind = case.kinds[0] if case.kinds else "(nothing)"
        for name in ("all", case.split, case.language, f"{case.split} {case.language}", f"{case.split} {kind}"):
            scores.setdefault(name, Score()).add(case, judgements)
    return scores


def mistakes(split: str) -> Iterator[str]:
    """Each sentence of `split` that was not judged as labelled, with what came of it."""
    for case in cases():
        score, judgements = Score(), run(case)
        score.add(case, judgements)
        kept = bool(case.kinds)
        if case.split != split or (
            score.accepted == kept and score.kind_right == kept and score.entries_right == score.entries * kept
        ):
            continue
        entries = [f"{c.kind.value}: {c.content}" for j in judgements if (c := j.candidate)]
        got = entries or [j.reason.value for j in judgements]
        yield f"{case.text} | {case.kinds or case.reason} | {got}"


def main() -> int:
    scores = scored()
    Console(width=140).print(table(sorted(scores.items())))
    if "--errors" in sys.argv:
        print(*mistakes(sys.argv[-1]), sep="\n")
    reached = all(
        scores[s].precision >= GOALS["precision"] and scores[s].recall >= GOALS["recall"] for s in ("dev", "test")
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
