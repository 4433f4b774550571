"""What two looks at /metrics say: rates between them, and quantiles of what happened meanwhile. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    """Every sample of one answer of /metrics, and when it was taken, in seconds on any clock."""

    at: float
    samples: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, at: float) -> "Scrape":
        """ValueError where it is not the Prometheus text."""
        samples: dict[str, dict[Labels, float]] = defaultdict(dict)
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                samples[one.name][tuple(sorted(one.labels.items()))] = one.value
        return cls(at, dict(samples))

    def by(self, name: str, label: str, **only: str) -> dict[str, float]:
        """Sums of the samples with these labels, by the value of one label."""
        found: dict[str, float] = defaultdict(float)
        for labels, value in self.samples.get(name, {}).items():
            known = dict(labels)
            if label in known and only.items() <= known.items():
                found[known[label]] += value
        return dict(found)

    def total(self, name: str, **only: str) -> float:
        return sum(
            value for labels, value in self.samples.get(name, {}).items() if only.items() <= dict(labels).items()
        )


@dataclass(frozen=True, slots=True)
class Between:
    """What happened from one scrape to the next. Where a count fell, its process was started anew: then it counts from nothing."""

    first: Scrape
    second: Scrape

    @property
    def seconds(self) -> float:
        return max(self.second.at - self.first.at, 1e-9)

    def grown(self, name: str, label: str, **only: str) -> dict[str, float]:
        before = self.first.by(name, label, **only)
        return {
            key: value - before.get(key, 0.0) if value >= before.get(key, 0.0) else value
            for key, value in self.second.by(name, label, **only).items()
        }

    def rate(self, name: str, label: str, **only: str) -> dict[str, float]:
        """Per second, by the value of one label."""
        return {key: value / self.seconds for key, value in self.grown(name, label, **only).items()}

    def quantiles(self, name: str, wanted: Iterable[float], **only: str) -> "Quantiles":
        """Of a histogram: of what happened meanwhile or, where nothing did, of all that it has seen."""
        wanted = tuple(wanted)
        buckets = self.grown(f"{name}_bucket", "le", **only)
        meanwhile = any(buckets.values())
        if not meanwhile:
            buckets = self.second.by(f"{name}_bucket", "le", **only)
        ordered = sorted((float(le), count) for le, count in buckets.items())
        return Quantiles(tuple(quantile(ordered, one) for one in wanted), meanwhile)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """None where nothing was ever seen."""

    values: tuple[float | None, ...]
    meanwhile: bool


def quantile(buckets: list[tuple[float, float]], wanted: float) -> float | None:
    """Of cumulative buckets (upper bound, count) in ascending order, as Prometheus does it: evenly spread within a bucket; what lies
    beyond the last finite bound is told as that bound."""
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank = wanted * buckets[-1][1]
    lower, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > below:
            return lower if bound == inf else lower + (bound - lower) * max(rank - below, 0.0) / (count - below)
        lower, below = bound, count
    return lower
