"""How many replicas a model needs: from the work that comes, the work that waits, and how fast one replica was seen to be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """One replica's, averaged over the time that is looked back on. `capacity` is 0 before its first run."""

    queued: float
    """Tokens that wait."""
    served: float
    """Tokens a second that were run."""
    capacity: float
    """Tokens a second while the device was running."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What an operator wants. `utilisation` in (0, 1]: how much of its capacity a replica is to use, the rest is for bursts;
    `drain_s`: in how many seconds what waits is to be gone; `slack`: how far off the aim counts as at it."""

    utilisation: float = 0.7
    drain_s: float = 5.0
    slack: float = 0.1


def replicas_wanted(loads: Sequence[ReplicaLoad], running: int, aim: Aim) -> int:
    """Replicas that this load needs; `running` where that is near enough, or where nothing was measured yet.

    The queue alone would not do: it is empty just below full load, and three replicas at half load would become one at 1.5 times
    its own. So the steady part counts what was served, and only the rest counts what waits. It goes down only where what is left
    could carry the load with `slack` to spare: what it decides does not call for its opposite.
    """
    measured = [load for load in loads if load.capacity > 0]
    if not measured:
        return running
    steady = sum(load.served / load.capacity for load in measured) / aim.utilisation
    waiting = sum(load.queued / load.capacity for load in measured) / aim.drain_s
    need = steady + waiting
    if need > running * (1 + aim.slack):
        return math.ceil(need)
    if need <= (running - 1) * (1 - aim.slack):
        return max(1, math.ceil(need / (1 - aim.slack)))
    return running
