"""kill -9 at each step of a reindex: it is run again and goes on where it was, and the new index then holds what the records hold,
whatever was written, corrected and deleted in between (P18, P26). Each step is met on a version of its own.
"""

from pathlib import Path

import pytest

from storage.protocols import VersionState
from tests.faults import reindexing
from tests.faults.conftest import ALL
from tests.faults.model import load, prepared_model
from tests.faults.processes import run
from tests.faults.steps import changes, places_to_die
from tests.faults.world import Place, fresh

LEAN, LEANER = 4, 2
"""Steps where not all are asked for: on SQLite, on a server."""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Another model's folder, and its key."""
    folder = prepared_model(tmp_path_factory.mktemp("other"), 32)
    embedder = load(folder)
    return folder, embedder._encoder.card.key  # type: ignore[attr-defined]


@pytest.mark.timeout(1200)
def test_p18_a_reindex_killed_at_any_step_goes_on_and_misses_nothing(place: Place, other: tuple[Path, str]):
    model, model_key = other
    shop = run(reindexing.declare, place, fresh("t")).value
    steps = run(reindexing.reindex, place, model).value
    found, state = run(reindexing.finished, place, model_key, shop.tenant).value
    assert (found.faults, state) == ({}, VersionState.READY)
    assert found.entries == len(reindexing.USERS) * reindexing.ENTRIES

    chosen = places_to_die(steps) if ALL else changes(steps)
    if not ALL:
        chosen = chosen[1 :: len(chosen) // (LEAN if place.records_url == "embedded" else LEANER)]
    killed = 0
    for number, step in enumerate(chosen):
        killed += run(reindexing.reindex, place, model, step).signal == 9
        run(reindexing.live, place, shop, number)
        run(reindexing.reindex, place, model)
        found, state = run(reindexing.finished, place, model_key, shop.tenant).value
        assert (found.faults, state) == ({}, VersionState.READY), step
    assert killed >= 0.8 * len(chosen), (killed, chosen)
    print(f"reindex: killed at {killed} of {len(steps)} steps")
