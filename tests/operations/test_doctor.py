"""`strata doctor`: each part in a line, what to do where one is not well, and 1 where anything is bad."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sqlalchemy import delete, update

from deployments.cli.main import LOCAL
from deployments.doctor import Finding, Level, examine
from deployments.serve_file import ServeFile, read_serve_file
from memory.ids import TenantId
from memory.scope import system_scope
from models.prepare import prepared_folder
from models.settings import EncoderSettings
from storage.records.schema import memories
from tests.end_to_end.harness import Strata, Tenant
from tests.operations.conftest import BOTH

SHOP = system_scope(TenantId("shop"))


def file_of(strata: Strata) -> ServeFile:
    """The Serve file that this Strata could have been started with."""
    file = read_serve_file(LOCAL)
    memory = file.memory.model_copy(update={"stores": strata.settings})
    prepared = file.inference.embedder.model_copy(update={"folder": prepared_folder(EncoderSettings())})
    inference = file.inference.model_copy(update={"embedder": prepared})
    return replace(file, inference=inference, memory=memory)


def of(found: list[Finding], part: str) -> Finding:
    return next(one for one in found if one.part == part)


def bad(found: list[Finding]) -> list[str]:
    return [one.part for one in found if one.level is Level.BAD]


@BOTH
@pytest.mark.model
async def test_a_healthy_strata_has_nothing_bad(strata: Strata, shop: Tenant):
    talk = await shop.open("wei")
    await talk.say("我对花生过敏。", "I live in Berlin.")
    await strata.settle()
    found = await examine(file_of(strata), full=True)
    assert bad(found) == [], found
    for part in ("sessions", "records", "records.schema", "secrets.master_key", "model", "backlog", "index"):
        assert of(found, part).level is Level.OK, of(found, part)
    assert of(found, "index.drift").said == "index and records agree: 4 looked at"
    assert all(one.fix for one in found if one.level is not Level.OK)
    if strata.settings.index != "local":
        assert of(found, "records.sql_mode").level is Level.OK
        assert of(found, "sessions.maxmemory").level is Level.OK
        assert of(found, "index.server").said.endswith(" 1 healthy node(s)")
        assert of(found, "index.awake").said.startswith("1 of at most 1500 tenants are awake")


@BOTH
@pytest.mark.model
async def test_p26_it_finds_what_index_and_records_do_not_agree_on(strata: Strata, shop: Tenant):
    talk = await shop.open("wei")
    await talk.say("我对花生过敏。", "I live in Berlin.", "我养了一只猫。")
    await strata.settle()
    ids = [memory["id"] for memory in await talk.memories()]
    await strata.services.index.remove(SHOP, ids[:1])
    database = strata.services.records._database
    await database.write(lambda c: c.execute(delete(memories).where(memories.c.id == ids[1])))
    await database.write(lambda c: c.execute(update(memories).where(memories.c.id == ids[2]).values(version=7)))
    found = await examine(file_of(strata))
    drift = [one for one in found if one.part == "index.drift"]
    assert {one.level for one in drift} == {Level.BAD}
    said = " ".join(one.said for one in drift)
    for kind in ("not in the index", "without a row", "earlier version"):
        assert kind in said
    assert all("Sweeper" in one.fix for one in drift)


async def test_before_the_first_start_it_says_what_will_be_made(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STRATA_HOME", str(home))
    found = await examine(read_serve_file(LOCAL))
    assert bad(found) == []
    assert of(found, "secrets.master_key").said == "is made at the first start"
    assert of(found, "records").fix == "`strata up` makes them"
    assert not (home / "secrets").exists()
    assert not (home / "data").exists()


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("STRATA_MASTER_KEY", "c2hvcnQ=", "secrets.master_key"),
        ("STRATA_TOKEN_KEY", "short", "secrets.token_keys.k1"),
        ("STRATA_PEPPER", "", "secrets.pepper"),
        ("STRATA_RECEIPT_KEY", None, "secrets.receipt_key"),
        ("STRATA_RECORDS_URL", None, "secrets.records_url"),
    ],
)
async def test_a_secret_that_is_missing_or_misshapen_is_named_and_never_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, part: str
):
    file = away(home, monkeypatch)
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    found = of(await examine(file), part)
    assert found.level is Level.BAD
    assert found.fix
    assert not value or value not in f"{found.said} {found.fix}"


def away(home: Path, monkeypatch: pytest.MonkeyPatch) -> ServeFile:
    """Production, with servers at addresses where nobody listens."""
    from tests.end_to_end.tiers import PRODUCTION, environment

    monkeypatch.setenv("STRATA_HOME", str(home))
    nobody = "127.0.0.1:1"
    for name, value in environment(f"redis://{nobody}", f"mysql://root@{nobody}/strata", f"http://{nobody},1").items():
        monkeypatch.setenv(name, value)
    return read_serve_file(PRODUCTION)


async def test_stores_that_are_away_are_findings_and_not_failures(home: Path, monkeypatch: pytest.MonkeyPatch):
    found = await examine(away(home, monkeypatch))
    assert {"sessions", "records"} <= set(bad(found))
    assert all(one.fix for one in found if one.level is Level.BAD)
    assert not any("127.0.0.1" in one.said for one in found)


def test_the_command_exits_with_1_where_something_is_bad(home: Path, monkeypatch: pytest.MonkeyPatch):
    from typer.testing import CliRunner

    from deployments.cli.main import app
    from tests.end_to_end.tiers import PRODUCTION

    away(home, monkeypatch)
    shown = CliRunner().invoke(app, ["doctor", "--config", str(PRODUCTION)], env={**os.environ, "COLUMNS": "200"})
    assert shown.exit_code == 1
    assert "bad" in shown.output
    monkeypatch.setenv("STRATA_HOME", str(home))
    healthy = CliRunner().invoke(app, ["doctor"], env={**os.environ, "COLUMNS": "200"})
    assert healthy.exit_code == 0, healthy.output


def test_a_url_with_a_password_does_not_stand_in_a_file(home: Path, tmp_path: Path):
    from memory.errors import ConfigError
    from tests.end_to_end.tiers import PRODUCTION

    data = yaml.safe_load(PRODUCTION.read_text("utf-8"))
    for application in data["applications"][1:]:
        application["args"]["stores"]["records_url"] = "mysql://strata:hunter2@db/strata"
    file = tmp_path / "configs" / "own.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(data), "utf-8")
    with pytest.raises(ConfigError, match="env:NAME") as refused:
        read_serve_file(file)
    assert "hunter2" not in str(refused.value)
