"""What stands around the RayService: budgets, network policies, services, monitors, secrets."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from deployments.kubernetes.lint.documents import (
    Document,
    Finding,
    PodTemplate,
    name_of,
    of_kind,
    pod_templates,
    ray_services,
    selects,
)

CLOSED = {8404: "HAProxy's statistics", 9101: "HAProxy's metrics", 8265: "Ray's dashboard", 10001: "Ray's client port"}
"""Ports that listen on all interfaces of a pod of Ray. A Service must not carry them outside."""
CLEANUP = {"ray.io/node-type": "redis-cleanup", "ray.io/is-ray-node": "yes"}
"""Of the Job by which the operator clears Redis when a cluster goes."""


def budgets(documents: list[Document]) -> Iterator[Finding]:
    """Ray's pods belong to a RayCluster, which has no scale subresource: only a whole number can be kept."""
    ray = [template for template in pod_templates(documents) if template.ray is not None]
    for document in of_kind(documents, "PodDisruptionBudget"):
        spec, name = document.get("spec") or {}, name_of(document)
        meant = [template for template in ray if selects(spec.get("selector"), template.labels)]
        if not meant:
            continue
        least = spec.get("minAvailable")
        if "maxUnavailable" in spec or not isinstance(least, int):
            yield Finding(
                name, "spec", "over Ray's pods only a whole minAvailable works; anything else blocks every eviction"
            )
            continue
        if any(template.ray == "head" for template in meant):
            yield Finding(
                name, "spec.selector", "takes in the head: there is one, so no node that holds it can ever be drained"
            )
        pods = sum(template.settings.get("minReplicas") or 0 for template in meant if template.ray != "head")
        if least >= pods:
            yield Finding(
                name,
                "spec.minAvailable",
                f"is {least} of at least {pods} pods: no node that holds one can be drained; write less",
            )


def default_deny(documents: list[Document]) -> Iterator[Finding]:
    denied: set[str] = set()
    for document in of_kind(documents, "NetworkPolicy"):
        spec = document.get("spec") or {}
        if not spec.get("podSelector") and not spec.get("ingress") and not spec.get("egress"):
            denied |= set(spec.get("policyTypes") or ())
    for kind in sorted({"Ingress", "Egress"} - denied):
        if any(True for _ in ray_services(documents)):
            yield Finding(
                "NetworkPolicy", "spec", f"nothing denies {kind} to every pod: HAProxy and Ray listen on all interfaces"
            )


def open_ports(documents: list[Document]) -> Iterator[Finding]:
    """Who but Ray's own pods may reach a pod of Ray says on which ports."""
    ray = [template for template in pod_templates(documents) if template.ray is not None]
    for document in of_kind(documents, "NetworkPolicy"):
        spec = document.get("spec") or {}
        if not any(selects(spec.get("podSelector"), template.labels) for template in ray):
            continue
        for number, rule in enumerate(spec.get("ingress") or ()):
            path = f"spec.ingress[{number}]"
            ports = {port.get("port") for port in rule.get("ports") or ()}
            peers = rule.get("from") or ()
            among_ray = bool(peers) and all(_only_ray(peer) for peer in peers)
            if not peers:
                yield Finding(name_of(document), f"{path}.from", "is empty: everybody may come; say who")
            elif not ports and not among_ray:
                yield Finding(
                    name_of(document), f"{path}.ports", "are all: Ray runs what it is sent; name those that are meant"
                )
            if 8404 in ports:
                yield Finding(
                    name_of(document), f"{path}.ports", "lets 8404 through, HAProxy's statistics: nobody needs it"
                )


def _only_ray(peer: Document) -> bool:
    labels = (peer.get("podSelector") or {}).get("matchLabels") or {}
    return "namespaceSelector" not in peer and labels.get("ray.io/is-ray-node") == "yes"


def redis_cleanup(documents: list[Document]) -> Iterator[Finding]:
    """Deleting a RayService waits 300 s for a Job that must reach Redis, and its finalizer stays where it cannot."""
    for owner, pods in _ray_redis(documents):
        policies = [
            policy
            for policy in of_kind(documents, "NetworkPolicy")
            if selects(policy["spec"].get("podSelector"), pods.labels)
            and "Ingress" in policy["spec"].get("policyTypes", ())
        ]
        peers = [
            peer.get("podSelector")
            for policy in policies
            for rule in policy["spec"].get("ingress") or ()
            for peer in rule.get("from") or ()
        ]
        if policies and not any(selects(selector, CLEANUP) for selector in peers):
            yield Finding(
                owner,
                "NetworkPolicy",
                "does not admit the operator's clean-up Job (ray.io/node-type: redis-cleanup): a cluster that goes would hang",
            )


def ray_redis_is_its_own(documents: list[Document]) -> Iterator[Finding]:
    for owner, pods in _ray_redis(documents):
        if "strata/store" in pods.labels:
            yield Finding(
                owner,
                "spec.rayClusterConfig.gcsFaultToleranceOptions",
                "shares a Redis with a store of Strata: give Ray one of its own",
            )


def _ray_redis(documents: list[Document]) -> Iterator[tuple[str, PodTemplate]]:
    """(RayService, pods) of a Redis for fault tolerance that is in the same manifests."""
    for owner, _, cluster in ray_services(documents):
        address = str((cluster.get("gcsFaultToleranceOptions") or {}).get("redisAddress") or "")
        host = urlsplit(address if "://" in address else f"redis://{address}").hostname
        for service in of_kind(documents, "Service"):
            if service["metadata"]["name"] == host:
                labels = {"matchLabels": service["spec"].get("selector") or {}}
                yield from (
                    (owner, pods)
                    for pods in pod_templates(documents)
                    if pods.ray is None and selects(labels, pods.labels)
                )


def services(documents: list[Document]) -> Iterator[Finding]:
    for document in of_kind(documents, "Service"):
        spec = document.get("spec") or {}
        if spec.get("type") in ("LoadBalancer", "NodePort"):
            for port in spec.get("ports") or ():
                what = CLOSED.get(port.get("targetPort", port["port"])) or CLOSED.get(port["port"])
                if what:
                    yield Finding(
                        name_of(document), "spec.ports", f"carries {port['port']} outside, {what}: take it away"
                    )


def monitors(documents: list[Document]) -> Iterator[Finding]:
    """A monitor of a port that no pod names finds nothing, and says nothing."""
    templates = list(pod_templates(documents))
    for document in of_kind(documents, "PodMonitor"):
        meant = [template for template in templates if selects(document["spec"].get("selector"), template.labels)]
        if not meant:
            yield Finding(name_of(document), "spec.selector", "takes in no pod of these manifests")
        names = {
            port.get("name")
            for template in meant
            for _, container in template.containers()
            for port in container.get("ports") or ()
        }
        for endpoint in document["spec"].get("podMetricsEndpoints") or ():
            if meant and endpoint.get("port") not in names:
                yield Finding(
                    name_of(document), "spec.podMetricsEndpoints", f"no pod has a port named `{endpoint.get('port')}`"
                )


def no_secrets(documents: list[Document]) -> Iterator[Finding]:
    for document in of_kind(documents, "Secret"):
        yield Finding(
            name_of(document),
            "data",
            "stands among the manifests: make it by `strata kubernetes secrets`, outside of them",
        )


RULES = (
    budgets,
    default_deny,
    open_ports,
    redis_cleanup,
    ray_redis_is_its_own,
    services,
    monitors,
    no_secrets,
)
