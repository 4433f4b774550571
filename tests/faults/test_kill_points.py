"""kill -9 at each step of create, update, delete and erase: afterwards the stores are equal again, and a retry makes nothing twice
(P25, P26, P28, P34).

A first run of each story lists its steps; then for each step a process is killed there. A process that knows nothing works off what
they left, and an audit that shares no code with the product's own comparison looks at both sides. At last every request is made
again under its key.
"""

from dataclasses import dataclass

import pytest

from tests.faults import stories
from tests.faults.conftest import ALL
from tests.faults.processes import run
from tests.faults.steps import changes, places_to_die
from tests.faults.stories import BYSTANDER, BYSTANDER_KNOWN, STORIES, USER, Told
from tests.faults.world import Place, fresh

LEAN = 4
"""Steps of a story on a server, where not all are asked for: every n-th, so that each part of the story is met."""


@dataclass(frozen=True, slots=True)
class Death:
    story: str
    step: str
    told: Told

    def __str__(self) -> str:
        return f"{self.story}, {self.step}"


@pytest.mark.timeout(1800)
def test_p26_a_process_killed_at_any_step_leaves_nothing_apart_and_a_retry_nothing_twice(place: Place):
    died = [death for name in STORIES for death in _killed(place, name)]

    found = run(stories.recover, place, [death.told.tenant for death in died]).value
    apart = {str(death): found[death.told.tenant].faults for death in died if found[death.told.tenant].faults}
    assert not apart, apart

    for name, story in STORIES.items():
        batch = [death for death in died if death.story == name]
        retried = run(stories.retry, place, name, [death.told for death in batch]).value
        for death in batch:
            status, after, left = retried[death.told.tenant]
            assert status in story.statuses, (str(death), status)
            assert not after.faults, (str(death), after.faults)
            assert sorted(after.contents.get(USER, [])) == sorted(story.expected), str(death)
            assert after.contents[BYSTANDER] == [BYSTANDER_KNOWN], str(death)
            assert not left, (str(death), left)
        print(f"{name}: killed at {len(batch)} steps")
    print(f"{len(died)} kills: missing, orphans, undead, leftover tombstones 0/0/0/0")
    assert len(died) >= 20


def _killed(place: Place, name: str) -> list[Death]:
    """A process killed at each step of the story, in a tenant of its own."""
    (first,) = run(stories.begin, place, [fresh("t")]).value
    steps = _chosen(run(stories.tell, place, name, first).value, place)
    batch = run(stories.begin, place, [fresh("t") for _ in steps]).value
    died = []
    for step, told in zip(steps, batch, strict=True):
        if run(stories.tell, place, name, told, step).signal == 9:
            died.append(Death(name, step, told))
    # A poll more or less, and the last steps of a run are not met again.
    assert len(died) >= 0.8 * len(steps), (name, len(died), steps)
    return died


def _chosen(steps: list[str], place: Place) -> list[str]:
    if ALL:
        return places_to_die(steps)
    lean = changes(steps)
    return lean if place.records_url == "embedded" else lean[:: max(1, len(lean) // LEAN)]
