"""What is known of one request while it runs. Made anew for each, never shared: `scope["state"]` may be, with some servers."""

import re
import time
import uuid
from collections.abc import MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from deployments.edge.caller import Caller

KEY = "strata"
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.\-]{8,128}", re.ASCII)


def new_request_id() -> str:
    return f"req_{uuid.uuid4().hex}"


@dataclass(slots=True)
class Facts:
    """`deadline` is in the event loop's time."""

    request_id: str = field(default_factory=new_request_id)
    started: float = field(default_factory=time.perf_counter)
    deadline: float = float("inf")
    caller: Caller | None = None
    tenant_id: str = "-"
    body: bytes = b""
    """The body as it came, for the digest of an idempotent request."""


CURRENT: ContextVar[Facts | None] = ContextVar("strata_facts", default=None)
"""Of the request that runs now: what a log line says of it."""


def accepted_request_id(given: str | None) -> str:
    """The caller's own where it is well-formed (8 to 128 of A-Z a-z 0-9 _ . -), else a new one."""
    return given if given is not None and _REQUEST_ID.fullmatch(given) else new_request_id()


def facts_of(scope: MutableMapping[str, Any]) -> Facts:
    """The request's facts; made here where no middleware did."""
    found = scope.get(KEY)
    if not isinstance(found, Facts):
        found = scope[KEY] = Facts()
    return found
