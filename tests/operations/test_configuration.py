"""The files in configs/ are what the code takes, and the settings that must agree with each other do."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from deployments.serve_file import read_serve_file
from deployments.settings import CuratorSettings, Deadlines, MemoryArgs, StoreSettings
from deployments.tenancy import read_tenant_files
from memory.policy import Isolation, Policy

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("*.yaml")))
def test_every_serve_file_loads_strictly(name: str):
    file = read_serve_file(CONFIGS / name)
    assert file.context.stores == file.memory.stores


def test_production_names_servers_and_secrets_by_reference_alone():
    stores = read_serve_file(CONFIGS / "production.yaml").stores
    assert stores.index != "local"
    told = [stores.sessions_url, stores.records_url, stores.index.http, stores.index.grpc, stores.index.api_key]
    told += [stores.secrets.master_key, stores.secrets.pepper, stores.secrets.receipt_key]
    told += list((stores.secrets.token_keys or {}).values())
    assert all(one is not None and one.startswith("env:STRATA_") for one in told)


def test_every_tenant_file_loads():
    assert [tenant.id for tenant in read_tenant_files(CONFIGS / "tenants")] == ["demo"]


def test_p26_a_deletion_is_not_verified_while_a_stalled_worker_may_write():
    stores = StoreSettings(deadlines=Deadlines(index_s=20))
    with pytest.raises(ValidationError, match=r"grace_s must be over 50"):
        MemoryArgs(stores=stores, curator=CuratorSettings(lease_s=30, grace_s=50))
    MemoryArgs(stores=stores, curator=CuratorSettings(lease_s=30, grace_s=51))
    with pytest.raises(ValidationError, match=r"grace_s must be over 60"):
        MemoryArgs(stores=StoreSettings(policy_poll_s=30), curator=CuratorSettings(lease_s=1, grace_s=40))
    MemoryArgs()


def test_isolation_is_a_knob_of_the_policy():
    assert Policy().isolation is Isolation.SHARD
    assert Policy.model_validate({"isolation": "collection"}).isolation is Isolation.COLLECTION
    with pytest.raises(ValidationError):
        Policy.model_validate({"isolation": "cluster"})
