"""What a cluster must have before an overlay is applied to it, and would not say: an object of a kind that it does not know is
refused, but a Gateway class, a Secret or a key that is missing only leaves something waiting."""

import base64
import binascii
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from deployments.kubernetes.environment import ADDRESSES, KEYS
from deployments.kubernetes.lint.documents import Document, Finding, name_of, pod_templates, ray_services
from deployments.kubernetes.secrets import tenant_variables
from memory.errors import ConfigError

ANSWER_S = 60.0


@dataclass(frozen=True)
class Surroundings:
    """What a cluster has. `secrets`: name -> its keys, in the overlay's namespace."""

    kinds: frozenset[str]
    gateway_classes: frozenset[str] = frozenset()
    secrets: dict[str, frozenset[str]] = field(default_factory=dict)
    placeholders: frozenset[str] = frozenset()
    """`secret/key` of each value that is empty or still in angle brackets."""


def missing(documents: list[Document], surroundings: Surroundings) -> Iterator[Finding]:
    """What the overlay needs and the cluster lacks."""
    for document in documents:
        if document["kind"] not in surroundings.kinds:
            yield Finding(
                name_of(document),
                "kind",
                f"the cluster knows no {document['kind']}: install what defines it, or leave it out",
            )
    for name, spec, _ in ray_services(documents):
        strategy = spec.get("upgradeStrategy") or {}
        if strategy.get("type") == "NewClusterWithIncrementalUpgrade":
            wanted = (strategy.get("clusterUpgradeOptions") or {}).get("gatewayClassName")
            if not {"Gateway", "HTTPRoute"} <= surroundings.kinds:
                yield Finding(
                    name,
                    "spec.upgradeStrategy",
                    "an incremental upgrade needs the Gateway API, which the cluster does not have",
                )
            elif wanted not in surroundings.gateway_classes:
                yield Finding(
                    name,
                    "spec.upgradeStrategy.clusterUpgradeOptions.gatewayClassName",
                    f"the cluster has no GatewayClass `{wanted}`; there is {', '.join(sorted(surroundings.gateway_classes)) or 'none'}",
                )
    for secret, keys in sorted(secrets_of(documents).items()):
        has = surroundings.secrets.get(secret)
        if has is None:
            yield Finding(f"Secret {secret}", "metadata.name", "is not there: `strata kubernetes secrets` makes it")
            continue
        for key in sorted(keys - has):
            yield Finding(f"Secret {secret}", f"data.{key}", "is not there, and pods take it")
    for place in sorted(surroundings.placeholders):
        secret, _, key = place.partition("/")
        if secret in secrets_of(documents):
            yield Finding(f"Secret {secret}", f"data.{key}", "is empty or a placeholder")


def secrets_of(documents: list[Document]) -> dict[str, set[str]]:
    """Secret -> the keys that pods take from it by name; those that are taken whole have the keys of configs/production.yaml."""
    whole = {"strata-stores": ADDRESSES, "strata-keys": KEYS, "strata-tenant-keys": tuple(tenant_variables(documents))}
    found: dict[str, set[str]] = {}
    for template in pod_templates(documents):
        for _, container in template.containers():
            for source in container.get("envFrom") or ():
                name = (source.get("secretRef") or {}).get("name")
                if name is not None:
                    found.setdefault(name, set()).update(whole.get(name, ()))
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference:
                    found.setdefault(reference["name"], set()).add(reference["key"])
    for _, _, cluster in ray_services(documents):
        password = (cluster.get("gcsFaultToleranceOptions") or {}).get("redisPassword") or {}
        reference = (password.get("valueFrom") or {}).get("secretKeyRef")
        if reference:
            found.setdefault(reference["name"], set()).add(reference["key"])
    return found


def look(namespace: str) -> Surroundings:
    """Of the cluster that kubectl talks to. ConfigError where it does not answer."""
    lines = _kubectl("api-resources", "--no-headers").splitlines()
    kinds = frozenset(line.split()[-1] for line in lines if line.strip())
    classes = _names("gatewayclasses.gateway.networking.k8s.io") if "GatewayClass" in kinds else frozenset()
    secrets: dict[str, frozenset[str]] = {}
    placeholders = set()
    for item in json.loads(_kubectl("get", "secrets", "--namespace", namespace, "--output", "json"))["items"]:
        name, data = item["metadata"]["name"], item.get("data") or {}
        secrets[name] = frozenset(data)
        placeholders |= {f"{name}/{key}" for key, value in data.items() if _placeholder(value)}
    return Surroundings(kinds, classes, secrets, frozenset(placeholders))


def _placeholder(encoded: str) -> bool:
    try:
        value = base64.b64decode(encoded).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return not value or (value.startswith("<") and value.endswith(">"))


def _names(resource: str) -> frozenset[str]:
    return frozenset(
        item["metadata"]["name"] for item in json.loads(_kubectl("get", resource, "--output", "json"))["items"]
    )


def _kubectl(*arguments: str) -> str:
    command = ["kubectl", f"--request-timeout={ANSWER_S:.0f}s", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * ANSWER_S, check=False)  # noqa: S603
    except FileNotFoundError:
        raise ConfigError("kubectl", "is not installed") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(
            "kubectl", "got no answer from the cluster; look at the context with `kubectl config view`"
        ) from None
    if done.returncode:
        raise ConfigError("kubectl", f"`{' '.join(arguments)}` failed: {done.stderr.strip().splitlines()[-1][:200]}")
    return done.stdout
