"""`strata tenants erase` and `strata receipts show`: the order, what carries it out, and the signed proof."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from deployments.cli.main import LOCAL, app
from deployments.flows.erasing import erase_tenant
from deployments.services import utc_now
from deployments.stores import open_stores
from memory.errors import ConfigError, NotFound
from memory.ids import TenantId
from memory.scope import system_scope
from tests.end_to_end.harness import Strata, Tenant

pytestmark = pytest.mark.model


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, catch_exceptions=True)


async def test_i3_a_tenant_is_erased_and_the_receipt_says_so(strata: Strata, shop: Tenant, tmp_path: Path):
    talk = await shop.open("wei")
    await talk.say("我对花生过敏。", "I live in Berlin.")
    other = await (await strata.tenant("books")).open("li")
    await other.say("我喜欢科幻小说。")
    await strata.settle()
    config = file_without_tenants(tmp_path, strata)

    refused = await asyncio.to_thread(invoke, "tenants", "erase", "shop", "--confirm", "shpo", "--config", config)
    assert isinstance(refused.exception, ConfigError)
    assert "repeat the tenant's id" in str(refused.exception)

    ordered = await asyncio.to_thread(invoke, "tenants", "erase", "shop", "--confirm", "shop", "--config", config)
    assert ordered.exit_code == 0, ordered.output
    assert "pending" in ordered.output
    async with open_stores(strata.settings) as stores:
        receipt = await erase_tenant(stores.records, TenantId("shop"), "test", utc_now())  # the same order
    assert receipt.id in ordered.output

    async with asyncio.timeout(120):
        while True:
            await strata.curator.step()
            await strata.workers.eraser.step()
            shown = await asyncio.to_thread(
                invoke, "receipts", "show", receipt.id, "--tenant", "shop", "--json", "--config", config
            )
            assert shown.exit_code == 0, shown.output
            document = json.loads(shown.output)
            if document["completed_at"] is not None:
                break
    assert document["signature"]
    assert {name: one["after"] for name, one in document["stores"].items() if one["after"]} == {}
    with pytest.raises(NotFound):
        await strata.services.tenants.tenant(system_scope(), TenantId("shop"))
    assert await strata.services.index.tenants(system_scope()) == {"books"}
    assert await other.contents() == ["用户喜欢科幻小说"]


async def test_a_tenant_that_a_file_still_declares_is_not_erased(strata: Strata, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STRATA_HOME", str(strata.settings.home))
    refused = await asyncio.to_thread(invoke, "tenants", "erase", "demo", "--confirm", "demo", "--config", str(LOCAL))
    assert isinstance(refused.exception, ConfigError)
    assert "take its file away first" in str(refused.exception)


def file_without_tenants(folder: Path, strata: Strata) -> str:
    data = yaml.safe_load(LOCAL.read_text("utf-8"))
    for application in data["applications"][1:]:
        stores = application["args"]["stores"]
        stores.pop("tenants_dir", None)
        stores["home"] = str(strata.settings.home)
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(data), "utf-8")
    return str(file)
