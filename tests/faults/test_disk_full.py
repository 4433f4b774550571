"""The embedded tier on a full disk: a clear error, nothing corrupt, and it goes on when there is space again.

On a small file system of its own where one can be mounted; and with a limit on the size of files, which is the same to SQLite.
"""

import asyncio
import resource
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from structlog.testing import capture_logs

from memory.policy import MergePolicy, Policy
from storage.sessions import valkey_server
from tests.end_to_end.harness import Talk, Tenant
from tests.faults import stories
from tests.faults.audit import audit
from tests.faults.processes import run
from tests.faults.world import Place, fresh, opened

SIZE_MB = 24
BALLAST = "ballast"
PATIENCE_S = 60.0
LONG = "word " * 700
"""Of an entry: a few of them need new pages."""
USER = "wei"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own with a few megabytes."""
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)]
    try:
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here: that needs root")
        yield folder
    finally:
        (folder / BALLAST).unlink(missing_ok=True)
        valkey_server.stop(folder)
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        folder.rmdir()


@pytest.mark.parametrize("how", ["no space", "no growth"])
def test_a_full_disk_is_said_so_corrupts_nothing_and_work_goes_on_when_there_is_space(
    how: str, request: pytest.FixtureRequest, tiny: Path
):
    home = request.getfixturevalue("small_disk" if how == "no space" else "home")
    stored, turns, session, key = run(filled, Place(home, tiny), how).value
    assert stored
    with sqlite3.connect(home / "data" / "records.db") as records:
        assert records.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    files = list((home / "index").glob("*/*.db"))
    assert files
    for path in files:
        assert apsw.Connection(str(path)).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    valkey_server.stop(home)  # what is read then comes from its file
    kept = run(reopened, Place(home, tiny), key, session).value
    assert set(turns) <= set(kept)


async def filled(place: Place, how: str) -> tuple[list[str], list[str], Any, Any]:
    """Writes until the disk is full and beyond, and again when it is not. What was acknowledged must be there."""
    async with opened(place) as world:
        tenant = await world.strata.tenant(fresh("t"), Policy(merge=MergePolicy(same_fact=1.0)), stories.GRANTS)
        talk = await tenant.open(USER)
        stored, turns = [await _stored(tenant) for _ in range(3)], [await _said(talk)]
        await stories.drain(world)

        disk = Disk(place.home, how)
        disk.fill()
        with capture_logs() as logs:
            refused = await _until_refused(tenant, stored)
        assert {line.get("code") for line in logs} & {"SQLITE_FULL", "SQLITE_IOERR_WRITE"}  # whom it concerns, says why
        assert refused.status_code == 503, refused.text
        assert refused.json()["type"] == "urn:strata:problem:unavailable"
        assert "records" in refused.json()["detail"]
        assert str(place.home) not in refused.text
        for _ in range(3):
            await world.work()  # what cannot be indexed now is put off, and nothing ends the worker
            turns += [turn for turn in [await _said(talk)] if turn]
        listed = await talk.call("GET", "/v1/memories")
        assert {item["content"] for item in listed["items"]} == set(stored)
        # A session's reads put off its expiry, which is a write: a Valkey that cannot keep its log refuses them, and says so.
        read = await talk.strata.call("POST", "/v1/context", talk.token, json={"query": "word"})
        assert read.status_code == 200 or "sessions" in read.json()["detail"]

        disk.free()
        await _goes_on(tenant, talk, stored, turns)
        await stories.drain(world)
        found = await audit(world.strata, tenant.id)
        assert not found.faults
        assert sorted(found.contents[USER]) == sorted(stored)
        return stored, turns, (talk.id, talk.token), tenant.key


class Disk:
    """The disk below a home, full or not."""

    def __init__(self, home: Path, how: str) -> None:
        self._home, self._how = home, how

    def fill(self) -> None:
        if self._how == "no growth":
            largest = max(path.stat().st_size for path in self._home.rglob("*.db*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
            return
        with (self._home / BALLAST).open("ab", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        ballast.write(b"0" * size)
                except OSError:
                    pass

    def free(self) -> None:
        if self._how == "no growth":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            (self._home / BALLAST).unlink()


async def _write(tenant: Tenant, content: str) -> Any:
    body = {"user_id": USER, "memories": [{"content": content}], "mode": "verbatim"}
    return await tenant.call("POST", "/v1/memories", json=body)


async def _stored(tenant: Tenant) -> str:
    content = f"{fresh('entry')} {LONG}".strip()
    answer = await _write(tenant, content)
    assert answer.status_code == 200, answer.text
    return content


async def _until_refused(tenant: Tenant, stored: list[str]) -> Any:
    """What is left in the files' last pages is used up first."""
    for _ in range(200):
        content = f"{fresh('entry')} {LONG}".strip()
        answer = await _write(tenant, content)
        if answer.status_code != 200:
            return answer
        stored.append(content)
    raise AssertionError("the disk does not get full")


async def _said(talk: Talk) -> str | None:
    """The id of a turn that was appended; None where that was refused."""
    turns = {"turns": [{"role": "assistant", "content": LONG}]}
    answer = await talk.strata.call("POST", f"/v1/sessions/{talk.id}/turns", talk.token, json=turns)
    assert answer.status_code in (200, 503), answer.text
    return answer.json()["turns"][0]["id"] if answer.status_code == 200 else None


async def _goes_on(tenant: Tenant, talk: Talk, stored: list[str], turns: list[str]) -> None:
    """Both stores take writes again, without a restart."""
    until = time.monotonic() + PATIENCE_S
    wrote = said = False
    while not (wrote and said):
        assert time.monotonic() < until, (wrote, said)
        if not wrote:
            content = f"{fresh('entry')} {LONG}".strip()
            if wrote := (await _write(tenant, content)).status_code == 200:
                stored.append(content)
        if not said and (turn := await _said(talk)):
            turns.append(turn)
            said = True
        await asyncio.sleep(0.1)


async def reopened(place: Place, key: str, session: tuple[str, str]) -> list[str]:
    """The ids of the session's turns, read by another process."""
    stories.quiet()
    async with opened(place) as world:
        talk = Talk(world.strata, *session)
        page = await talk.call("GET", f"/v1/sessions/{talk.id}/turns", params={"limit": 500})
        return [turn["id"] for turn in page["items"]]
