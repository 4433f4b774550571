"""Both sides compared: the table is the specification (P26, P37)."""

import pytest

from memory.drift import Drift, RowState, drift, drifts, kept_in_vain
from memory.ids import MemoryId

LIVE, DEAD = RowState(2, live=True, waiting=False), RowState(2, live=False, waiting=False)
LIVE_WAITING, DEAD_WAITING = RowState(2, live=True, waiting=True), RowState(2, live=False, waiting=True)


@pytest.mark.parametrize(
    ("row", "indexed", "answering", "other"),
    [
        (LIVE, 2, None, None),
        (LIVE, None, Drift.MISSING, None),  # a version that is being built, or was retired, need not hold it
        (LIVE, 1, Drift.STALE, None),
        (LIVE, 3, Drift.AHEAD, None),
        (DEAD, 2, Drift.UNDEAD, Drift.UNDEAD),
        (DEAD, 1, Drift.UNDEAD, Drift.UNDEAD),
        (DEAD, None, Drift.UNDEAD, None),  # a tombstone that nobody takes away; one index that says so is enough
        (None, 2, Drift.ORPHAN, Drift.ORPHAN),
        (None, None, None, None),
        # Whatever waits is being worked on
        (LIVE_WAITING, None, None, None),
        (LIVE_WAITING, 1, None, None),
        (LIVE_WAITING, 2, None, None),
        (LIVE_WAITING, 3, None, None),
        (DEAD_WAITING, 2, None, None),
        (DEAD_WAITING, None, None, None),
    ],
)
def test_p26_p37_drift_of_one_entry(row, indexed, answering, other):
    assert drift(row, indexed) is answering
    assert kept_in_vain(row, indexed) is other


@pytest.mark.parametrize(
    ("kind", "removes", "marks"),
    [
        (Drift.MISSING, False, True),
        (Drift.STALE, False, True),
        (Drift.AHEAD, True, True),  # an index may refuse to go back to an earlier version
        (Drift.UNDEAD, False, True),  # the ordinary path of a deletion, with its grace and its receipt
        (Drift.ORPHAN, True, False),
    ],
)
def test_what_heals_it(kind, removes, marks):
    assert (kind.removes, kind.marks) == (removes, marks)


def test_drifts_looks_at_both_sides():
    rows = {MemoryId("a"): LIVE, MemoryId("b"): LIVE, MemoryId("c"): DEAD}
    indexed = {MemoryId("b"): 2, MemoryId("c"): 2, MemoryId("d"): 1}
    assert drifts(rows, indexed, answering=True) == {"a": Drift.MISSING, "c": Drift.UNDEAD, "d": Drift.ORPHAN}
    assert drifts(rows, indexed, answering=False) == {"c": Drift.UNDEAD, "d": Drift.ORPHAN}
    assert drifts({}, {}, answering=True) == {}
