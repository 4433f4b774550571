"""Who asks what and when, fixed before the first request is sent: Poisson arrivals, a mix of calls, tenants by Zipf.

An open loop: the next call does not wait for the last answer, so that a service which falls behind is seen to fall behind.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Call(StrEnum):
    TURNS = "turns"
    CONTEXT = "context"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Planned:
    """One call: seconds after the start, and whose it is. `number` counts the calls: it chooses the words."""

    at: float
    call: Call
    tenant: int
    user: int
    session: int
    number: int


@dataclass(frozen=True, slots=True)
class Population:
    """`tenants` of `users` each with `sessions` each. `skew`: the k-th tenant is asked for k ** -skew as often as the first."""

    tenants: int = 8
    users: int = 5
    sessions: int = 2
    skew: float = 1.0


def parse_mix(text: str) -> dict[Call, float]:
    """`turns=4,context=5,search=1` as shares that sum to one. ValueError names what is wrong."""
    weights: dict[Call, float] = {}
    for part in text.split(","):
        name, equals, weight = part.strip().partition("=")
        if not equals or name not in set(Call):
            raise ValueError(f"`{part}`: write a call and its weight, such as turns=4; the calls are {', '.join(Call)}")
        if Call(name) in weights:
            raise ValueError(f"`{name}` is named twice")
        weights[Call(name)] = float(weight)
        if not 0 <= weights[Call(name)] < float("inf"):
            raise ValueError(f"`{part}`: a weight is a number from 0 on")
    total = sum(weights.values())
    if not total:
        raise ValueError("at least one call must have a weight over 0")
    return {call: weight / total for call, weight in weights.items()}


def zipf_shares(count: int, skew: float) -> NDArray[np.float64]:
    """[count], summing to one, falling: the k-th is k ** -skew of the first. A skew of 0: all alike."""
    weights = np.power(np.arange(1, count + 1, dtype=np.float64), -skew)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def arrivals(rate: float, seconds: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Times in [0, seconds), ascending, of a Poisson process of `rate` a second."""
    count = rng.poisson(rate * seconds)
    return np.sort(rng.uniform(0.0, seconds, count))


def plan(
    rate: float, seconds: float, mix: Mapping[Call, float], population: Population, seed: int
) -> Iterator[Planned]:
    """The same calls at the same times for the same arguments."""
    rng = np.random.default_rng(seed)
    times = arrivals(rate, seconds, rng)
    calls = rng.choice(len(mix), len(times), p=list(mix.values()))
    tenants = rng.choice(population.tenants, len(times), p=zipf_shares(population.tenants, population.skew))
    users = rng.integers(population.users, size=len(times))
    sessions = rng.integers(population.sessions, size=len(times))
    names = list(mix)
    for number, at in enumerate(times):
        yield Planned(
            float(at),
            names[calls[number]],
            int(tenants[number]),
            int(users[number]),
            int(sessions[number]),
            number,
        )
