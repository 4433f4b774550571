"""Users' keys as SQL keeps them."""

from dataclasses import dataclass

from memory.ids import UserRef


@dataclass(frozen=True, slots=True)
class UserKey:
    """A user as an index knows it: the reference and the wrapped key (see storage/keys.py)."""

    ref: UserRef
    wrapped: bytes
