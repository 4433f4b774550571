"""One page of a listing."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """`next_cursor` is opaque, valid for its caller alone; None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None = None
