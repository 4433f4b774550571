"""One bounded pool of connections, with a deadline on every call and nothing of the server's words in an error."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from memory.errors import DeadlineExceeded, Unavailable

_WHAT = "sessions"
_ATTEMPTS = 3
_PAUSE_S = 0.02  # before the first repetition, doubled for the next, with jitter

_log = structlog.get_logger(__name__)


class Call(NamedTuple):
    """One run of a script."""

    script: str
    keys: Sequence[str]
    args: Sequence[str | bytes | int] = ()


class SessionClient:
    """The connections that sessions, claims and rates of one replica share.

    `url` is redis://, rediss:// or unix://. A call that is cancelled, or that misses its deadline, closes the connection that it
    was reading from, so that no later call can be given its reply (P36).
    """

    def __init__(self, url: str, *, deadline_s: float = 2.0, connections: int = 32) -> None:
        self._deadline_s = deadline_s
        self.pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=2
            * deadline_s,  # `deadline` comes first: at equal length a full pool would now and then be called Unavailable
            socket_timeout=deadline_s,
            socket_connect_timeout=deadline_s,
            retry=Retry(NoBackoff(), 0),  # the library would repeat writes as well; `run` repeats what may be repeated
            protocol=2,
        )
        self.redis = Redis(connection_pool=self.pool)
        self._scripts: dict[str, Any] = {}

    def register(self, scripts: Mapping[str, str]) -> None:
        """Make scripts known by name. Nothing is sent: the server gets a script when it says that it lacks it."""
        for name, text in scripts.items():
            self._scripts[name] = self.redis.register_script(text)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Everything inside together gets the deadline. DeadlineExceeded or Unavailable("sessions") instead of what went wrong."""
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except (TimeoutError, RedisTimeoutError):
            raise DeadlineExceeded(_WHAT) from None
        except (RedisError, OSError) as error:
            # A server's text may hold addresses, paths or a script's arguments: its class is what the log gets.
            _log.warning("session_store_error", error=type(error).__name__)
            raise Unavailable(_WHAT) from None

    async def run(self, *calls: Call, repeat: bool = False) -> list[Any]:
        """The calls' answers, in one round trip. With `repeat` (only for what may happen twice) a lost connection is tried again,
        at most twice, after a short random pause. Belongs inside `deadline`."""
        attempt = 1
        while True:
            try:
                return await self._once(calls)
            except RedisConnectionError:
                if not repeat or attempt == _ATTEMPTS:
                    raise
            await asyncio.sleep(random.uniform(0.5, 1.5) * _PAUSE_S * 2 ** (attempt - 1))  # noqa: S311
            attempt += 1

    async def _once(self, calls: Sequence[Call]) -> list[Any]:
        answers = await self._send(calls)
        lacking = [place for place, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if lacking:  # a new or flushed server; a call that lacked its script did nothing
            for name in {calls[place].script for place in lacking}:
                await self.redis.script_load(self._scripts[name].script)
            again = await self._send([calls[place] for place in lacking])
            for place, answer in zip(lacking, again, strict=True):
                answers[place] = answer
        for answer in answers:
            if isinstance(answer, RedisError):
                raise answer
        return answers

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        # A pipeline even for one call: its answers, errors among them, come back side by side. Not through the library's
        # Script objects, which ask SCRIPT EXISTS before every pipeline: a second round trip.
        pipeline = self.redis.pipeline(transaction=False)
        for call in calls:
            pipeline.evalsha(self._scripts[call.script].sha, len(call.keys), *call.keys, *call.args)
        return list(await pipeline.execute(raise_on_error=False))

    async def ping(self) -> None:
        async with self.deadline():
            await self.redis.ping()

    async def aclose(self) -> None:
        await self.redis.aclose()
        await self.pool.aclose()
