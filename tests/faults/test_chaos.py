"""Workers and clients killed and stalled at random under load; then nothing is missing, left over, undead, lost or doubled. Longer, and on
other servers: `python -m tests.faults.chaos`.
"""

import os

import pytest

from tests.faults.chaos import stores
from tests.faults.raging import Chaos

SECONDS = float(os.environ.get("STRATA_CHAOS_SECONDS", "6"))
SEED = 26


@pytest.mark.timeout(900)
def test_p26_p34_three_workers_killed_at_random_under_load_leave_nothing_apart():
    print(f"seed {SEED}")
    with stores(None, None, None) as place:
        report = Chaos(place, SECONDS, SEED).run()
    print(report)
    assert report.good, str(report)
    assert sum(report.deaths.values()) >= 3
    assert report.operations["create"] > 5
