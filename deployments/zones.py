"""The user's time zone, by its name."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo


def zone_of(name: str | None) -> tzinfo:
    """UTC where there is none, or none that this machine knows."""
    try:
        return UTC if name is None else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC
