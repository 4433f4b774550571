"""One thin layer around each store: how long every call took, how it failed, and its place in the trace.

Names of methods and counts are told, arguments never.
"""

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from deployments.telemetry import metrics
from deployments.telemetry.tracing import store_call, tracing
from memory.errors import DeadlineExceeded, Overloaded, StrataError, Unavailable

S = TypeVar("S")

FAILURES = (Unavailable, DeadlineExceeded, Overloaded)
"""The store's own. Every other error of ours is an answer: not found, conflict, refused input."""


def watched(store: S, name: str) -> S:
    """`store`, with its coroutine methods measured; everything else as it is. `name` is its label: sessions, records, index, …"""
    return cast(S, _Watched(store, name))


class _Watched:
    """Methods are wrapped when they are first asked for, and found at once from then on."""

    def __init__(self, store: Any, name: str) -> None:
        self.__dict__.update(_store=store, _name=name)

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._store, method)
        if method.startswith("_") or not inspect.iscoroutinefunction(found):
            return found
        made = _measured(found, self._name, method)
        self.__dict__[method] = made
        return made


def _measured(call: Callable[..., Awaitable[Any]], store: str, method: str) -> Callable[..., Awaitable[Any]]:
    observe = metrics.STORE_SECONDS.labels(store, method).observe
    now = time.perf_counter

    async def plain(*args: Any, **options: Any) -> Any:
        started = now()
        try:
            return await call(*args, **options)
        except Exception as error:
            _count(error, store)
            raise
        finally:
            observe(now() - started)

    async def traced(*args: Any, **options: Any) -> Any:
        with store_call(store, method, _items(args)):
            return await plain(*args, **options)

    return traced if tracing() else plain


def _count(error: Exception, store: str) -> None:
    if isinstance(error, FAILURES):
        metrics.STORE_ERRORS.labels(store, error.slug).inc()
    elif not isinstance(error, StrataError):
        metrics.STORE_ERRORS.labels(store, "unforeseen").inc()


def _items(args: tuple[Any, ...]) -> int | None:
    """How many things the call is about, where it takes a list of them."""
    for one in args[1:]:
        if isinstance(one, (list, tuple)):
            return len(one)
    return None
