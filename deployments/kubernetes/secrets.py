"""The Secrets that manifests name, made anew. No secret stands in a file of the project."""

import base64
import secrets as random_secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deployments.edge.credentials import new_key
from deployments.kubernetes.environment import ADDRESSES, KEYS
from deployments.kubernetes.lint.documents import Document, of_kind
from deployments.strict_yaml import load_yaml
from memory.errors import ConfigError


def _key() -> str:
    return base64.b64encode(random_secrets.token_bytes(32)).decode()


def _password() -> str:
    return random_secrets.token_urlsafe(24)


def read_values(path: Path) -> dict[str, str]:
    """NAME=value lines; ConfigError names the line that is none."""
    values: dict[str, str] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read ({type(error).__name__})") from None
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        if line.strip() and not line.startswith("#"):
            if not equals or not name.strip() or not value.strip():
                raise ConfigError(f"{path}:{number}", "must be NAME=value")
            values[name.strip()] = value.strip()
    return values


def secret_documents(documents: list[Document], given: Mapping[str, str]) -> list[Document]:
    """A Secret for each that the overlay needs. `given` names addresses of managed stores, and any key that is to be kept; the rest
    is random. ConfigError where an address of a managed store is not given."""
    inside = any("strata/store" in _labels(document) for document in of_kind(documents, "StatefulSet"))
    namespace = next(document["metadata"].get("namespace") for document in of_kind(documents, "RayService"))
    kept = dict(given)

    def value(name: str, make: Callable[[], str]) -> str:
        return kept.pop(name, None) or make()

    made: dict[str, dict[str, str]] = {"ray-redis": {"password": _password()}}
    if inside:
        passwords = {name: _password() for name in ("sessions", "records", "records-root")}
        index_key = _password()
        made["dev-stores"] = {f"{name}-password": word for name, word in passwords.items()} | {"index-key": index_key}
        made["strata-stores"] = {
            "STRATA_SESSIONS_URL": f"redis://:{passwords['sessions']}@sessions:6379/0",
            "STRATA_RECORDS_URL": f"mariadb://strata:{passwords['records']}@records:3306/strata",
            "STRATA_WEAVIATE_HTTP": "http://index:8080",
            "STRATA_WEAVIATE_GRPC": "index:50051",
            "STRATA_WEAVIATE_KEY": index_key,
        }
    else:
        if missing := [name for name in ADDRESSES if name not in kept]:
            raise ConfigError(
                "--values", f"name a file that says {missing[0]}: this overlay's stores are managed by others"
            )
        made["strata-stores"] = {name: kept.pop(name) for name in ADDRESSES}
    made["strata-keys"] = {name: value(name, _key) for name in KEYS}
    made["strata-tenant-keys"] = {name: value(name, new_key) for name in tenant_variables(documents)}
    if kept:
        raise ConfigError("--values", f"`{min(kept)}` is of no Secret of this overlay")
    return [_secret(name, namespace, data) for name, data in made.items()]


def tenant_variables(documents: list[Document]) -> list[str]:
    """The names of the environment from which the tenants' files take their keys."""
    names = set()
    for document in of_kind(documents, "ConfigMap"):
        if document["metadata"]["name"] == "strata-tenants":
            for file, text in document["data"].items():
                for key in (load_yaml(text, file) or {}).get("keys") or ():
                    scheme, _, name = str(key.get("secret")).partition(":")
                    if scheme == "env":
                        names.add(name)
    return sorted(names)


def _labels(document: Document) -> dict[str, Any]:
    labels: dict[str, Any] = document["spec"]["template"]["metadata"]["labels"]
    return labels


def _secret(name: str, namespace: str | None, data: dict[str, str]) -> Document:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": data}
