"""RayService: what the API server and KubeRay's operator take without a word, and what it then costs."""

import re
from collections.abc import Iterator
from importlib.metadata import version

from deployments.kubernetes.generate import ROLLS, rolls_with
from deployments.kubernetes.lint.documents import Document, Finding, of_kind, pod_templates, ray_services

_CLUSTER = "spec.rayClusterConfig"


def ray_version(documents: list[Document]) -> Iterator[Finding]:
    """The operator chooses probes by it."""
    installed = version("ray")
    for name, _, cluster in ray_services(documents):
        said = cluster.get("rayVersion")
        if not isinstance(said, str) or not re.fullmatch(r"\d+\.\d+\.\d+", said):
            yield Finding(
                name, f"{_CLUSTER}.rayVersion", f'is {said!r}: the probes depend on it; write "{installed}", in quotes'
            )
        elif said.split(".")[:2] != installed.split(".")[:2]:
            yield Finding(
                name, f"{_CLUSTER}.rayVersion", f"is {said}, and Strata is built with {installed}; write that"
            )


def head_takes_no_work(documents: list[Document]) -> Iterator[Finding]:
    for name, _, cluster in ray_services(documents):
        parameters = (cluster.get("headGroupSpec") or {}).get("rayStartParams") or {}
        if str(parameters.get("num-cpus")) != "0":
            yield Finding(
                name,
                f"{_CLUSTER}.headGroupSpec.rayStartParams",
                'write num-cpus: "0": replicas beside the control plane starve it',
            )


def head_ports(documents: list[Document]) -> Iterator[Finding]:
    """With other ports alone the service is never ready, and only the operator's log says why. No ports at all are well."""
    for template in pod_templates(documents):
        if template.ray == "head":
            path, container = template.ray_container()
            names = {port.get("name") for port in container.get("ports") or ()}
            for wanted in ("serve", "dashboard"):
                if names and wanted not in names:
                    yield Finding(
                        template.owner,
                        f"{path}.ports",
                        f"lists ports without `{wanted}`: add it, or list none, else it is never ready",
                    )


def fault_tolerance(documents: list[Document]) -> Iterator[Finding]:
    for document in of_kind(documents, "RayService"):
        if "ray.io/external-storage-namespace" in (document["metadata"].get("annotations") or {}):
            yield Finding(
                f"RayService {document['metadata']['name']}",
                "metadata.annotations",
                "take ray.io/external-storage-namespace away: the two clusters of an upgrade would share one memory",
            )
    for name, _, cluster in ray_services(documents):
        options = cluster.get("gcsFaultToleranceOptions")
        path = f"{_CLUSTER}.gcsFaultToleranceOptions"
        if options is None:
            continue
        if options.get("backend", "redis") == "redis" and not options.get("redisAddress"):
            yield Finding(
                name, path, "has no redisAddress: nothing is kept, and a new head knows of no cluster; name a Redis"
            )
        if options.get("externalStorageNamespace"):
            yield Finding(
                name,
                f"{path}.externalStorageNamespace",
                "take it away: the two clusters of an upgrade would share one memory",
            )
        if (options.get("redisPassword") or {}).get("value"):
            yield Finding(name, f"{path}.redisPassword", "stands in the manifest: use valueFrom.secretKeyRef")


def groups(documents: list[Document]) -> Iterator[Finding]:
    for name, _, cluster in ray_services(documents):
        seen: set[str] = set()
        for number, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            path = f"{_CLUSTER}.workerGroupSpecs[{number}]"
            group_name = str(group.get("groupName"))
            if group_name in seen:
                yield Finding(
                    name, f"{path}.groupName", f"`{group_name}` is there twice: each group needs a name of its own"
                )
            seen.add(group_name)
            least, most, now = group.get("minReplicas"), group.get("maxReplicas"), group.get("replicas")
            if None not in (least, most) and least > most:
                yield Finding(name, f"{path}.minReplicas", f"is {least}, over maxReplicas ({most})")
            if None not in (now, most) and now > most:
                yield Finding(
                    name,
                    f"{path}.replicas",
                    f"is {now}, over maxReplicas ({most}): leave replicas out, the autoscaler sets it",
                )
            if most is None:
                yield Finding(
                    name, f"{path}.maxReplicas", "is missing: a group without one may grow without end; say how far"
                )
            if group.get("scaleStrategy") is None or (group.get("template") or {}).get("metadata") is None:
                yield Finding(
                    name,
                    path,
                    "write `scaleStrategy: {}` and template.metadata: a later server-side apply conflicts with the operator",
                )


def upgrade_strategy(documents: list[Document]) -> Iterator[Finding]:
    for name, spec, cluster in ray_services(documents):
        strategy = spec.get("upgradeStrategy") or {}
        path = "spec.upgradeStrategy"
        if strategy.get("type") == "None":
            yield Finding(
                name, f"{path}.type", "is None: a changed spec is never applied, and Ready stays True; write NewCluster"
            )
        if strategy.get("type") == "NewClusterWithIncrementalUpgrade":
            options = strategy.get("clusterUpgradeOptions") or {}
            if not options.get("gatewayClassName"):
                yield Finding(
                    name,
                    f"{path}.clusterUpgradeOptions.gatewayClassName",
                    "is missing: traffic is moved by a Gateway of that class",
                )
        if (cluster.get("upgradeStrategy") or {}).get("type"):
            yield Finding(
                name,
                f"{_CLUSTER}.upgradeStrategy",
                "is of a RayCluster alone; a RayService upgrades by spec.upgradeStrategy: take it away",
            )


def sizes_and_environment_roll(documents: list[Document]) -> Iterator[Finding]:
    """The operator leaves min/maxReplicas out when it compares, and never sees what is in a ConfigMap."""
    environment = {
        key: value
        for document in of_kind(documents, "ConfigMap")
        if document["metadata"]["name"] == "ray-environment"
        for key, value in (document.get("data") or {}).items()
    }
    for name, _, cluster in ray_services(documents):
        metadata = ((cluster.get("headGroupSpec") or {}).get("template") or {}).get("metadata") or {}
        said = (metadata.get("annotations") or {}).get(ROLLS)
        needed = rolls_with(environment, cluster.get("workerGroupSpecs") or [])
        if said != needed:
            yield Finding(
                name,
                f"{_CLUSTER}.headGroupSpec.template.metadata.annotations",
                f"{ROLLS} is {said!r}, the environment and the groups' sizes say {needed!r}: changed sizes and ConfigMaps do not reach a "
                "running cluster; run `strata kubernetes render`",
            )


def autoscaler(documents: list[Document]) -> Iterator[Finding]:
    for name, _, cluster in ray_services(documents):
        if not cluster.get("enableInTreeAutoscaling"):
            yield Finding(
                name,
                f"{_CLUSTER}.enableInTreeAutoscaling",
                "is not true: Serve's replicas would wait for pods that nobody makes",
            )
            continue
        options = cluster.get("autoscalerOptions") or {}
        if options.get("version") != "v2":
            yield Finding(name, f"{_CLUSTER}.autoscalerOptions.version", "is not v2: v1 knows no label selectors")


def authentication(documents: list[Document]) -> Iterator[Finding]:
    asked = any("RAY_AUTH_MODE" in (document.get("data") or {}) for document in of_kind(documents, "ConfigMap")) or any(
        variable.get("name") == "RAY_AUTH_MODE"
        for template in pod_templates(documents)
        for _, container in template.containers()
        for variable in container.get("env") or ()
    )
    for name, _, cluster in ray_services(documents):
        if (cluster.get("authOptions") or {}).get("mode") != "token":
            yield Finding(
                name,
                f"{_CLUSTER}.authOptions",
                "RAY_AUTH_MODE in the environment alone locks the operator out: write authOptions: {mode: token}"
                if asked
                else "is not {mode: token}: whoever reaches Ray's ports runs code in these pods",
            )


def horizontal_autoscalers(documents: list[Document]) -> Iterator[Finding]:
    for document in of_kind(documents, "HorizontalPodAutoscaler"):
        target = ((document.get("spec") or {}).get("scaleTargetRef") or {}).get("kind")
        if target in ("RayService", "RayCluster"):
            yield Finding(
                f"HorizontalPodAutoscaler {document['metadata']['name']}",
                "spec.scaleTargetRef",
                f"a {target} scales by Serve and Ray's autoscaler: take it away",
            )


RULES = (
    ray_version,
    head_takes_no_work,
    head_ports,
    fault_tolerance,
    groups,
    upgrade_strategy,
    sizes_and_environment_roll,
    autoscaler,
    authentication,
    horizontal_autoscalers,
)
