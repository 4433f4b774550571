"""Secrets are made, never kept: what the command prints is what pods take, and works."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from deployments.edge.credentials import split_key
from deployments.kubernetes.environment import ADDRESSES, KEYS
from deployments.kubernetes.lint.documents import Document
from deployments.kubernetes.preflight import Surroundings, missing, secrets_of
from deployments.kubernetes.secrets import read_values, secret_documents
from memory.errors import ConfigError
from storage.keys import MasterKey
from storage.receipts import ReceiptSigner
from tests.k8s.offline import OVERLAYS, ROOT, objects

MANAGED = {
    "STRATA_SESSIONS_URL": "rediss://:word@sessions.example:6379/0",
    "STRATA_RECORDS_URL": "mysql://strata:word@records.example/strata",
    "STRATA_WEAVIATE_HTTP": "http://index.example:8080",
    "STRATA_WEAVIATE_GRPC": "index.example:50051",
    "STRATA_WEAVIATE_KEY": "word",
}


def _made(overlay: str) -> dict[str, dict[str, str]]:
    given = {} if overlay == "dev" else MANAGED
    return {secret["metadata"]["name"]: secret["stringData"] for secret in secret_documents(objects(overlay), given)}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_key_that_a_pod_takes_is_made(overlay: str) -> None:
    made = _made(overlay)
    needed = secrets_of(objects(overlay))
    assert needed.keys() == made.keys()
    for name, keys in needed.items():
        assert keys <= made[name].keys()
    assert all(value for data in made.values() for value in data.values())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_keys_are_of_the_right_shape_and_new_each_time(overlay: str) -> None:
    made, again = _made(overlay), _made(overlay)
    MasterKey.from_base64(made["strata-keys"]["STRATA_MASTER_KEY"])
    ReceiptSigner.from_base64(made["strata-keys"]["STRATA_RECEIPT_KEY"])
    split_key(made["strata-tenant-keys"]["STRATA_TENANT_DEMO_KEY"])
    assert len({made["strata-keys"][name] for name in KEYS}) == len(KEYS)
    assert made["strata-keys"].values() != again["strata-keys"].values()
    assert made["ray-redis"] != again["ray-redis"]


def test_the_stores_of_dev_and_those_who_call_them_have_one_password() -> None:
    made = _made("dev")
    stores, passwords = made["strata-stores"], made["dev-stores"]
    assert urlsplit(stores["STRATA_SESSIONS_URL"]).password == passwords["sessions-password"]
    assert urlsplit(stores["STRATA_RECORDS_URL"]).password == passwords["records-password"]
    assert stores["STRATA_WEAVIATE_KEY"] == passwords["index-key"]
    services = {document["metadata"]["name"] for document in objects("dev") if document["kind"] == "Service"}
    hosts = {urlsplit(stores[name]).hostname for name in ADDRESSES[:3]} | {stores[ADDRESSES[3]].partition(":")[0]}
    assert hosts <= services


def test_addresses_of_managed_stores_are_asked_for() -> None:
    with pytest.raises(ConfigError, match="STRATA_RECORDS_URL"):
        secret_documents(
            objects("ha"), {name: value for name, value in MANAGED.items() if name != "STRATA_RECORDS_URL"}
        )


def test_a_given_key_is_kept_and_an_unknown_one_refused() -> None:
    made = secret_documents(objects("ha"), {**MANAGED, "STRATA_PEPPER": "cGVwcGVy"})
    [keys] = [secret["stringData"] for secret in made if secret["metadata"]["name"] == "strata-keys"]
    assert keys["STRATA_PEPPER"] == "cGVwcGVy"
    with pytest.raises(ConfigError, match="`STRATA_PEPER` is of no Secret"):
        secret_documents(objects("ha"), {**MANAGED, "STRATA_PEPER": "cGVwcGVy"})


def test_values_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "stores.env"
    path.write_text("# of ours\n\nA=1=2\n B = x \n", "utf-8")
    assert read_values(path) == {"A": "1=2", "B": "x"}
    path.write_text("A=1\nB\n", "utf-8")
    with pytest.raises(ConfigError, match=r"stores\.env:2.*must be NAME=value"):
        read_values(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_values(tmp_path / "none.env")


def test_the_example_names_everything_and_no_server_takes_it() -> None:
    """Its placeholders are no base64, which `data` must be."""
    text = (ROOT / "k8s" / "secrets.example.yaml").read_text("utf-8")
    secrets: list[Document] = list(yaml.safe_load_all(text))
    assert {secret["metadata"]["name"]: set(secret["data"]) for secret in secrets} == secrets_of(objects("ha"))
    for secret in secrets:
        assert all(value.startswith("<") and value.endswith(">") for value in secret["data"].values())


def test_no_manifest_holds_a_secret() -> None:
    for path in (ROOT / "k8s").rglob("*.yaml"):
        text = path.read_text("utf-8")
        if path.name != "secrets.example.yaml":
            assert "kind: Secret\n" not in text, path
        assert "sk_" not in text.replace("sk_...", "").replace("sk_<id>_<secret>", ""), path


# --- what a cluster must have


def _surroundings(overlay: str, **changes: object) -> Surroundings:
    kinds = {document["kind"] for document in objects(overlay)} | {"Gateway", "HTTPRoute", "GatewayClass"}
    secrets = {name: frozenset(keys) for name, keys in secrets_of(objects(overlay)).items()}
    complete = {"kinds": frozenset(kinds), "gateway_classes": frozenset({"istio"}), "secrets": secrets}
    return Surroundings(**(complete | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_complete_cluster_lacks_nothing(overlay: str) -> None:
    assert list(missing(objects(overlay), _surroundings(overlay))) == []


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"kinds": frozenset()}, "RayService strata: kind", "knows no RayService"),
        (
            {"kinds": _surroundings("ha").kinds - {"HTTPRoute"}},
            "RayService strata: spec.upgradeStrategy",
            "needs the Gateway API",
        ),
        (
            {"gateway_classes": frozenset({"cilium"})},
            "RayService strata: spec.upgradeStrategy",
            "no GatewayClass `istio`; there is cilium",
        ),
        ({"gateway_classes": frozenset()}, "RayService strata: spec.upgradeStrategy", "there is none"),
        ({"kinds": _surroundings("ha").kinds - {"PodMonitor"}}, "PodMonitor strata: kind", "knows no PodMonitor"),
        ({"secrets": {}}, "Secret strata-keys: metadata.name", "strata kubernetes secrets"),
        (
            {"secrets": {**_surroundings("ha").secrets, "strata-keys": frozenset(KEYS[1:])}},
            "Secret strata-keys: data.STRATA_MASTER_KEY",
            "is not there",
        ),
        (
            {"placeholders": frozenset({"strata-keys/STRATA_PEPPER"})},
            "Secret strata-keys: data.STRATA_PEPPER",
            "placeholder",
        ),
    ],
)
def test_what_a_cluster_lacks(changes: dict[str, object], where: str, says: str) -> None:
    found = [str(finding) for finding in missing(objects("ha"), _surroundings("ha", **changes))]
    assert any(finding.startswith(where) and says in finding for finding in found), found
