"""Where the index and the records have come apart, entry by entry, and what brings them together again (P26, P37).

The records are the truth. An entry that waits for the index is no drift: the worker is on its way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memory.ids import MemoryId


class Drift(StrEnum):
    MISSING = "missing"  # a live row that the index does not hold
    STALE = "stale"  # the index holds an earlier version of a live row
    AHEAD = "ahead"  # the index holds a later version: the records were restored from a backup
    UNDEAD = "undead"  # a deleted row that nobody works on any more, whether the index still holds it or not
    ORPHAN = "orphan"  # the index holds what has no row

    @property
    def removes(self) -> bool:
        """What the index holds has to go, at once: nothing that a worker writes would replace it."""
        return self in (Drift.ORPHAN, Drift.AHEAD)

    @property
    def marks(self) -> bool:
        """The row is to be worked on again: it is brought to the index, or its absence verified."""
        return self is not Drift.ORPHAN


@dataclass(frozen=True, slots=True)
class RowState:
    """A row of the records: its version, whether it is `live` or deleted, and whether it is `waiting` for the index."""

    version: int
    live: bool
    waiting: bool


def drift(row: RowState | None, indexed: int | None) -> Drift | None:
    """Of one entry: its row, if there is one, and the version that the index holds, if it does. None: all is well."""
    if row is None:
        return None if indexed is None else Drift.ORPHAN
    if row.waiting:
        return None
    if not row.live:
        return Drift.UNDEAD
    if indexed is None:
        return Drift.MISSING
    if indexed == row.version:
        return None
    return Drift.STALE if indexed < row.version else Drift.AHEAD


def kept_in_vain(row: RowState | None, indexed: int | None) -> Drift | None:
    """The same for an index that is not answered from: it may lack entries or hold earlier versions, but nothing deleted."""
    found = drift(row, indexed)
    return found if found is Drift.ORPHAN or (found is Drift.UNDEAD and indexed is not None) else None


def drifts(
    rows: Mapping[MemoryId, RowState], indexed: Mapping[MemoryId, int], answering: bool
) -> dict[MemoryId, Drift]:
    """Every entry of either side that has drifted. `answering`: the index is the one that is answered from."""
    judge = drift if answering else kept_in_vain
    found = {one: judge(rows.get(one), indexed.get(one)) for one in {**rows, **indexed}}
    return {one: kind for one, kind in found.items() if kind is not None}
