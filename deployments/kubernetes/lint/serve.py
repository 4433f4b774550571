"""serveConfigV2: Ray takes unknown keys in silence, and where it refuses the rest the RayService stays Ready with the old configuration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployments.kubernetes.environment import ADDRESSES, KEYS
from deployments.kubernetes.lint.documents import Document, Finding, PodTemplate, of_kind, pod_templates, ray_services
from deployments.kubernetes.serve_config import check_config
from deployments.serve_file import SPLIT
from deployments.strict_yaml import load_yaml
from memory.errors import ConfigError

PROBED_PORT = 8000
"""Where the operator's probes and services look for Serve."""

DEPLOYMENTS = {
    "deployments.inference_app:app": {"Embedder", "Reranker", "Summarizer", "Roster"},
    "deployments.context_app:app": {"ContextAssembler"},
    "deployments.memory_app:app": {"MemoryApi", "Curator"},
}
"""What each application is made of. A test holds this equal to what the builders make."""


def serve_config(documents: list[Document]) -> Iterator[Finding]:
    for name, spec, _ in ray_services(documents):
        try:
            config = read_config(spec)
        except ConfigError as error:
            yield Finding(name, "spec.serveConfigV2", str(error))
            continue
        port = (config.get("http_options") or {}).get("port", PROBED_PORT)
        if port != PROBED_PORT:
            yield Finding(
                name, "spec.serveConfigV2", f"http_options.port is {port}: probes and services look at {PROBED_PORT}"
            )
        host = (config.get("http_options") or {}).get("host", "0.0.0.0")  # noqa: S104 - a pod's own address, behind a NetworkPolicy
        if host not in ("0.0.0.0", "::"):  # noqa: S104
            yield Finding(
                name,
                "spec.serveConfigV2",
                f"http_options.host is {host}: nobody outside the pod reaches it; write 0.0.0.0",
            )
        for at, deployment, import_path in _deployments(config):
            if deployment["name"] not in DEPLOYMENTS[import_path]:
                yield Finding(
                    name,
                    "spec.serveConfigV2",
                    f"{at}: there is no such deployment; there is {', '.join(sorted(DEPLOYMENTS[import_path]))}",
                )


def read_config(spec: Document) -> dict[str, Any]:
    """ConfigError where Ray, or we, would refuse it."""
    text = spec.get("serveConfigV2")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError("serveConfigV2", "is missing, or is no text: write it as a block (serveConfigV2: |)")
    config = load_yaml(text, "serveConfigV2")
    check_config(config, Path("serveConfigV2"))
    if any(application["import_path"] not in SPLIT for application in config["applications"]):
        raise ConfigError(
            "serveConfigV2", "the fused application is for one machine: deploy the three that scale apart"
        )
    result: dict[str, Any] = config
    return result


def _groups(documents: list[Document]) -> list[PodTemplate]:
    return [template for template in pod_templates(documents) if template.ray not in (None, "head")]


def _configured(documents: list[Document]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each RayService's name and its Serve configuration. One that cannot be read is left out: serve_config says so."""
    for name, spec, _ in ray_services(documents):
        try:
            config = read_config(spec)
        except ConfigError:
            continue
        yield name, config


def placement(documents: list[Document]) -> Iterator[Finding]:
    """A replica that no group can hold waits for ever, and only the dashboard says so."""
    groups = _groups(documents)
    for name, config in _configured(documents):
        for at, deployment, _ in _deployments(config):
            options = deployment.get("ray_actor_options") or {}
            selector = options.get("label_selector") or {}
            if not selector:
                yield Finding(name, "spec.serveConfigV2", f"{at}: say with label_selector which group it runs on")
                continue
            able = [group for group in groups if _labelled(group, selector)]
            if not able:
                yield Finding(name, "spec.serveConfigV2", f"{at}: no worker group has the labels {selector}")
            elif not any(_holds(group, options) for group in able):
                wants = {key: options[key] for key in ("num_cpus", "num_gpus", "memory") if key in options}
                yield Finding(name, "spec.serveConfigV2", f"{at}: a pod of {able[0].ray} is too small for {wants}")


def capacity(documents: list[Document]) -> Iterator[Finding]:
    """Replicas beyond what the groups may grow to wait for ever, and a rolling upgrade waits with them."""
    groups = _groups(documents)
    for name, config in _configured(documents):
        wanted: dict[tuple[str, str], float] = {}
        for _, deployment, _ in _deployments(config):
            options = deployment.get("ray_actor_options") or {}
            scaling = deployment.get("autoscaling_config") or {}
            most = scaling.get("max_replicas", deployment.get("num_replicas", 1))
            for group in [group for group in groups if _labelled(group, options.get("label_selector") or {})][:1]:
                for option, resource in (("num_cpus", "cpu"), ("num_gpus", "nvidia.com/gpu")):
                    key = (str(group.ray), resource)
                    wanted[key] = wanted.get(key, 0.0) + most * options.get(option, 0)
        for (group_name, resource), amount in wanted.items():
            [group] = [group for group in groups if group.ray == group_name][:1]
            room = (group.settings.get("maxReplicas") or 0) * _given_to_ray(group, resource)
            if amount > room:
                yield Finding(
                    name,
                    "spec.serveConfigV2",
                    f"at their most, deployments on {group_name} want {amount:g} {resource}, and its maxReplicas give {room:g}: raise "
                    "that, or lower max_replicas",
                )


def references(documents: list[Document]) -> Iterator[Finding]:
    """A replica whose env:NAME nobody gives its pod fails at start, again and again."""
    maps = {
        document["metadata"]["name"]: set(document.get("data") or ()) for document in of_kind(documents, "ConfigMap")
    }
    groups = _groups(documents)
    for name, config in _configured(documents):
        for application in config["applications"]:
            wanted = sorted(set(_environment(application.get("args"))))
            for deployment in application.get("deployments") or ():
                selector = (deployment.get("ray_actor_options") or {}).get("label_selector") or {}
                for group in (group for group in groups if _labelled(group, selector)):
                    for variable in wanted:
                        if not _given(group, variable, maps):
                            at = f"{application['name']}.{deployment['name']}"
                            yield Finding(
                                name, "spec.serveConfigV2", f"{at}: env:{variable} is not given to pods of {group.ray}"
                            )


def _environment(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _environment(inner)
    elif isinstance(value, str) and value.startswith("env:"):
        yield value.removeprefix("env:")


def _given(group: PodTemplate, variable: str, maps: dict[str, set[str]]) -> bool:
    """Of a Secret of ours it is known what is in it; of another one it is not."""
    _, container = group.ray_container()
    known = {"strata-stores": set(ADDRESSES), "strata-keys": set(KEYS), "strata-tenant-keys": set()}
    for source in container.get("envFrom") or ():
        secret, config_map = ((source.get(kind) or {}).get("name") for kind in ("secretRef", "configMapRef"))
        if variable in maps.get(str(config_map), ()) or (secret and variable in known.get(secret, {variable})):
            return True
    return any(given.get("name") == variable for given in container.get("env") or ())


def _deployments(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    for application in config["applications"]:
        for deployment in application.get("deployments") or ():
            yield f"{application['name']}.{deployment['name']}", deployment, application["import_path"]


def _labelled(group: PodTemplate, selector: dict[str, str]) -> bool:
    labels = group.settings.get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _holds(group: PodTemplate, options: dict[str, Any]) -> bool:
    needs = {"cpu": "num_cpus", "nvidia.com/gpu": "num_gpus", "memory": "memory"}
    return all(options.get(option, 0) <= _given_to_ray(group, resource) for resource, option in needs.items())


def _given_to_ray(group: PodTemplate, resource: str) -> float:
    """What Ray hands out of a pod: its limit, or what it requests where it has none."""
    _, container = group.ray_container()
    resources = container.get("resources") or {}
    return quantity(((resources.get("requests") or {}) | (resources.get("limits") or {})).get(resource, 0))


_UNITS = {
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def quantity(text: Any) -> float:
    """`500m`, `2`, `4Gi` as a number; 0 for what is none."""
    digits = str(text).rstrip("mkKMGTi")
    try:
        return float(digits) * _UNITS[str(text)[len(digits) :]]
    except (KeyError, ValueError):
        return 0.0


RULES = (serve_config, placement, capacity, references)
