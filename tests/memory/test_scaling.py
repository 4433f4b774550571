"""How many replicas a load needs. One replica runs 1,000 tokens a second here; the aim is 70 % of that, and queues gone in 5 s."""

import pytest

from memory.scaling import Aim, ReplicaLoad, replicas_wanted

AIM = Aim(utilisation=0.7, drain_s=5.0, slack=0.1)


def load(served: float = 0.0, queued: float = 0.0, capacity: float = 1000.0) -> ReplicaLoad:
    return ReplicaLoad(queued=queued, served=served, capacity=capacity)


@pytest.mark.parametrize(
    ("loads", "running", "wanted"),
    [
        # steady work
        ([load()], 1, 1),  # idle: one stays
        ([load(700)], 1, 1),  # just at the aim
        ([load(760)], 1, 1),  # within the slack
        ([load(800)], 1, 2),
        ([load(1000)], 1, 2),  # full, and nothing waits: the queue alone would not tell
        ([load(900), load(900)], 2, 3),
        # work that waits
        ([load(1000, queued=2_000)], 1, 2),
        ([load(1000, queued=10_000)], 1, 4),
        ([load(1000, queued=60_000)], 1, 14),  # an import; the file's max_replicas bounds it
        ([load(0, queued=200)], 1, 1),  # a burst that is gone at once
        # down again
        ([load(100), load(100), load(100)], 3, 1),
        ([load(500), load(500), load(500)], 3, 3),  # two would be at 75 %
        ([load(400), load(400), load(400)], 3, 2),
        ([load(0), load(0)], 2, 1),
        ([load(350), load(350)], 2, 2),  # one would be at its aim with nothing to spare: stay
        ([load(300), load(300)], 2, 1),
        # what is not known
        ([], 1, 1),
        ([], 3, 3),
        ([load(capacity=0), load(capacity=0)], 2, 2),
        ([load(950), load(capacity=0)], 2, 2),  # the second has just started
        ([load(1000, queued=20_000), load(capacity=0)], 2, 6),
        # unlike devices: each counts by its own speed
        ([load(2000, capacity=4000), load(500, capacity=1000)], 2, 2),
        ([load(4000, capacity=4000), load(1000, capacity=1000)], 2, 3),
    ],
)
def test_replicas_wanted(loads: list[ReplicaLoad], running: int, wanted: int) -> None:
    assert replicas_wanted(loads, running, AIM) == wanted


@pytest.mark.parametrize("demand", range(0, 6000, 37))
def test_a_decision_does_not_call_for_its_opposite(demand: int) -> None:
    """The same work, spread over as many replicas as were wanted, wants as many: no swinging."""
    running = 1
    for _ in range(10):
        running = replicas_wanted([load(demand / running)] * running, running, AIM)
    settled = replicas_wanted([load(demand / running)] * running, running, AIM)
    assert settled == running
    assert demand / running <= 1000 * AIM.utilisation * (1 + AIM.slack)
    for start in (1, 3, 9, 20):  # from wherever it comes, it comes to rest at once
        once = replicas_wanted([load(demand / start)] * start, start, AIM)
        assert replicas_wanted([load(demand / once)] * once, once, AIM) == once


def test_a_queue_that_is_held_full_by_refusals_still_asks_for_more() -> None:
    """A bounded queue holds half a second of work while callers are refused: full use alone asks for another replica."""
    assert replicas_wanted([load(1000, queued=500)], 1, AIM) == 2
