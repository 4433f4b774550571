"""Every overlay, applied for real: what the API server takes, and what controllers and KubeRay's operator make of it.

No pod runs in these tests; they end where a kubelet would begin.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.k8s.live import CLEANUP, Cluster, condition, only_with_a_server, wait
from tests.k8s.overlays import OVERLAYS, of_kind, rendered

Manifest = dict[str, Any]

only_with_a_server()

pytestmark = pytest.mark.timeout(1200)

RAY = "rayservices.ray.io"
RAY_CLUSTER = "rayclusters.ray.io"
POD_MAKERS = {"Deployment": "app", "StatefulSet": "app", "Job": "job"}


@dataclass
class Applied:
    """An overlay on the server."""

    name: str
    namespace: str
    manifests: list[Manifest]
    cluster: Cluster

    def objects(self, kind: str, labels: str | None = None) -> list[Manifest]:
        return self.cluster.objects(kind, self.namespace, labels)

    def environment(self, container: Manifest) -> dict[str, str]:
        """What a container finds in its environment; a value from a Secret is not read."""
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            if name := source.get("configMapRef", {}).get("name"):
                settings = self.cluster.object("configmaps", name, self.namespace)
                assert settings, f"{container['name']} wants ConfigMap {name}"
                found |= settings.get("data", {})
        return found | {each["name"]: each.get("value", "<from elsewhere>") for each in container.get("env", [])}

    @property
    def service(self) -> Manifest:
        """The RayService as the server has it."""
        (shipped,) = of_kind(self.manifests, "RayService")
        found = self.cluster.object(RAY, shipped["metadata"]["name"], self.namespace)
        assert found
        return found


@pytest.fixture(scope="module", params=OVERLAYS, ids=lambda path: path.name)
def applied(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Applied]:
    """The overlay, in a namespace of its own with the labels that the overlay's own one has."""
    overlay: Path = request.param
    labels = next((each["metadata"].get("labels", {}) for each in of_kind(rendered(overlay, "x"), "Namespace")), {})
    with cluster.namespace(overlay.name, labels) as namespace:
        manifests = rendered(overlay, namespace)
        cluster.apply(manifests)
        yield Applied(overlay.name, namespace, manifests, cluster)


@pytest.fixture(scope="module")
def made(applied: Applied, operated: Cluster) -> Applied:
    """The same, when the operator has made a Ray cluster with a head pod and each group's least workers."""
    wanted = 1 + sum(group.get("minReplicas", 0) for group in _groups(applied))

    def pods() -> bool:
        return len(applied.objects("pods", "ray.io/is-ray-node=yes")) >= wanted

    wait(pods, f"{applied.name}: the operator makes {wanted} pods ({applied.cluster.warnings(applied.namespace)})")
    return applied


def _groups(applied: Applied) -> list[Manifest]:
    (service,) = of_kind(applied.manifests, "RayService")
    groups: list[Manifest] = service["spec"]["rayClusterConfig"].get("workerGroupSpecs", [])
    return groups


def _containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def _ray(pod: Manifest) -> Manifest:
    """KubeRay holds the first container for Ray's."""
    first: Manifest = pod["spec"]["containers"][0]
    return first


# --- the API server


def test_S_every_object_of_the_overlay_is_stored_as_it_was_sent(applied: Applied) -> None:
    """Strict validation let all pass, and a second apply changes nothing."""
    for each in applied.manifests:
        place = [] if each["kind"] in ("Namespace", "PriorityClass") else ["-n", applied.namespace]
        kind = each["kind"] if "/" not in each["apiVersion"] else f"{each['kind']}.{each['apiVersion'].split('/')[0]}"
        assert applied.cluster.kubectl("get", kind, each["metadata"]["name"], *place, "-o", "name").strip()
    assert {each["metadata"].get("namespace", applied.namespace) for each in applied.manifests} == {applied.namespace}


def test_S_controllers_make_the_pods_of_every_workload(applied: Applied) -> None:
    """Deployments, StatefulSets and Jobs: their pods pass admission (PodSecurity, quotas), or an event would say why not."""
    for kind in POD_MAKERS:
        for each in of_kind(applied.manifests, kind):
            labels = each["spec"]["template"]["metadata"].get("labels", {})
            chosen = ",".join(f"{name}={value}" for name, value in labels.items())

            def pods(chosen: str = chosen) -> bool:
                return bool(applied.objects("pods", chosen))

            wait(pods, f"pods of {kind} {each['metadata']['name']} ({applied.cluster.warnings(applied.namespace)})")


# --- KubeRay's operator


def test_S_the_operator_accepts_the_service_and_makes_its_cluster(made: Applied) -> None:
    service = made.service
    ready = condition(service, "Ready")
    assert ready.get("reason") not in (None, "ValidationFailed"), ready
    assert service["status"]["observedGeneration"] == service["metadata"]["generation"]
    (ray,) = made.objects(RAY_CLUSTER)
    assert ray["metadata"]["name"].startswith(service["metadata"]["name"])
    head = f"{ray['metadata']['name']}-head-svc"
    ports = {
        port["name"]: port["port"]
        for each in made.objects("services")
        if each["metadata"]["name"] == head
        for port in each["spec"]["ports"]
    }
    assert {"dashboard", "serve", "gcs-server"} <= set(ports), ports
    for kind in ("serviceaccounts", "roles", "rolebindings"):  # the autoscaler's
        assert ray["metadata"]["name"] in {each["metadata"]["name"] for each in made.objects(kind)}, kind


def test_S_every_group_has_its_pods(made: Applied) -> None:
    pods = made.objects("pods", "ray.io/is-ray-node=yes")
    of_group: dict[str, int] = {}
    for pod in pods:
        group = pod["metadata"]["labels"]["ray.io/group"]
        of_group[group] = of_group.get(group, 0) + 1
    least = {group["groupName"]: group.get("minReplicas", 0) for group in _groups(made)}
    assert of_group == {"headgroup": 1} | {name: count for name, count in least.items() if count}


def test_S_no_warning_but_that_nothing_schedules_them(made: Applied) -> None:
    assert made.cluster.warnings(made.namespace) == []


def test_S_ray_pods_carry_what_serving_needs(made: Applied) -> None:
    """P40 among it: what KubeRay asks for liveness is the node, never a store."""
    for pod in made.objects("pods", "ray.io/is-ray-node=yes"):
        name, ray = pod["metadata"]["name"], _ray(pod)
        environment = made.environment(ray)
        assert environment.get("RAY_SERVE_ENABLE_HA_PROXY") == "1", name
        assert environment.get("RAY_SERVE_THROUGHPUT_OPTIMIZED") == "1", name
        folder = environment.get("PROMETHEUS_MULTIPROC_DIR")
        mounts = {mount["mountPath"] for mount in ray["volumeMounts"]}
        assert folder and any(folder == mount or folder.startswith(f"{mount}/") for mount in mounts), name
        assert pod["spec"]["terminationGracePeriodSeconds"] >= 60, name  # `ray stop` takes over 30 s
        assert pod["spec"]["restartPolicy"] == "Never", name
        for probe in ("livenessProbe", "readinessProbe"):
            assert ray.get(probe), (name, probe)
            assert "/v1/" not in json.dumps(ray[probe]), (name, probe)


def test_S_every_ray_pod_has_the_metrics_sidecar(made: Applied) -> None:
    for pod in made.objects("pods", "ray.io/is-ray-node=yes"):
        ray = _ray(pod)
        (sidecar,) = (each for each in _containers(pod) if each["name"] == "metrics")
        assert {port["containerPort"] for port in sidecar["ports"]} == {9108}
        folder = made.environment(ray)["PROMETHEUS_MULTIPROC_DIR"]
        assert made.environment(sidecar)["PROMETHEUS_MULTIPROC_DIR"] == folder

        def volumes(container: Manifest, folder: str = folder) -> set[str]:
            at = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            return {name for path, name in at.items() if f"{folder}/".startswith(f"{path}/")}

        assert volumes(sidecar) & volumes(ray), "the sidecar reads another folder than Ray's processes write"


def test_S_every_container_says_what_it_needs(made: Applied) -> None:
    """The operator's own ones too (the autoscaler, a worker's wait for the head)."""
    for pod in made.objects("pods"):
        for container in _containers(pod):
            resources = container.get("resources", {})
            for kind in ("cpu", "memory"):
                assert kind in resources.get("requests", {}), (pod["metadata"]["name"], container["name"], kind)
            assert "memory" in resources.get("limits", {}), (pod["metadata"]["name"], container["name"])


def test_S_no_container_is_root_or_can_become_it(made: Applied) -> None:
    """Read off the pods that were made, not off the manifests: the operator adds containers of its own."""
    for pod in made.objects("pods"):
        whole = pod["spec"].get("securityContext") or {}
        for container in _containers(pod):
            own = container.get("securityContext") or {}
            who = (pod["metadata"]["name"], container["name"])
            assert (whole | own).get("runAsNonRoot") is True, who
            assert own.get("allowPrivilegeEscalation") is False, who
            assert own.get("capabilities", {}).get("drop") == ["ALL"], who
            assert (whole | own).get("seccompProfile", {}).get("type") == "RuntimeDefault", who


def test_S_a_head_that_dies_is_found_again_in_a_redis_of_its_own(made: Applied) -> None:
    """GCS fault tolerance where the overlay has it; the storage's name is the cluster's own, so that an upgrade's two don't meet."""
    (shipped,) = of_kind(made.manifests, "RayService")
    tolerance = shipped["spec"]["rayClusterConfig"].get("gcsFaultToleranceOptions")
    if tolerance is None:
        pytest.skip(f"{made.name} has no fault tolerance of the head")
    (ray,) = made.objects(RAY_CLUSTER)
    (head,) = made.objects("pods", "ray.io/node-type=head")
    environment = made.environment(_ray(head))
    assert environment["RAY_REDIS_ADDRESS"] == tolerance["redisAddress"]
    assert environment["RAY_external_storage_namespace"] == ray["metadata"]["uid"]
    for worker in made.objects("pods", "ray.io/node-type=worker"):
        assert int(made.environment(_ray(worker))["RAY_gcs_rpc_server_reconnect_timeout_s"]) >= 60


# --- what selects must find something: nobody says so otherwise


def _matches(selector: Manifest, labels: dict[str, str]) -> bool:
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels.get(name) != value:
            return False
    for each in selector.get("matchExpressions") or []:
        has, value = each["key"] in labels, labels.get(each["key"])
        holds = {
            "In": has and value in each.get("values", []),
            "NotIn": not has or value not in each.get("values", []),
            "Exists": has,
            "DoesNotExist": not has,
        }[each["operator"]]
        if not holds:
            return False
    return True


def test_S_every_selector_finds_a_pod_or_a_service(made: Applied) -> None:
    """A policy, budget or monitor whose labels fit nothing does nothing, in silence. The clean-up pod comes only at the end."""
    pods = [pod["metadata"]["labels"] for pod in made.objects("pods") if pod["metadata"].get("labels")]
    (head,) = made.objects("pods", "ray.io/node-type=head")
    pods.append(head["metadata"]["labels"] | {"ray.io/node-type": "redis-cleanup"})
    groups = {group["groupName"] for group in _groups(made)}
    worker = next(iter(made.objects("pods", "ray.io/node-type=worker")), None)
    if worker is not None:  # groups that start with no worker
        pods += [worker["metadata"]["labels"] | {"ray.io/group": group} for group in groups]
    if (
        of_kind(made.manifests, "RayService")[0]["spec"]["upgradeStrategy"]["type"]
        == "NewClusterWithIncrementalUpgrade"
    ):
        gateway = wait(lambda: made.objects("gateways.gateway.networking.k8s.io"), "the operator makes a Gateway")[0]
        pods.append(
            {"gateway.networking.k8s.io/gateway-name": gateway["metadata"]["name"]}
        )  # of whatever controller serves it
    services = [each["metadata"].get("labels") or {} for each in made.objects("services")]
    empty = []
    for kind, path, among in (
        ("NetworkPolicy", "podSelector", pods),
        ("PodDisruptionBudget", "selector", pods),
        ("PodMonitor", "selector", pods),
        ("ServiceMonitor", "selector", services),
    ):
        for each in of_kind(made.manifests, kind):
            if not any(_matches(each["spec"][path], labels) for labels in among):
                empty.append(f"{kind} {each['metadata']['name']}")
    for each in of_kind(made.manifests, "Service"):
        if (selector := each["spec"].get("selector")) and not any(
            _matches({"matchLabels": selector}, labels) for labels in pods
        ):
            empty.append(f"Service {each['metadata']['name']}")
    assert empty == []


def test_S_budgets_can_be_computed(made: Applied) -> None:
    """Over Ray's pods only an integer minAvailable can: anything else blocks every eviction."""
    for shipped in of_kind(made.manifests, "PodDisruptionBudget"):
        name = shipped["metadata"]["name"]

        def judged(name: str = name) -> Manifest | None:
            budget = made.cluster.object("poddisruptionbudgets", name, made.namespace)
            assert budget
            seen = budget.get("status", {}).get("observedGeneration") == budget["metadata"]["generation"]
            return condition(budget, "DisruptionAllowed") if seen else None

        assert wait(judged, f"budget {name} is computed")["reason"] != "SyncFailed", name


def test_S_it_can_be_applied_again(made: Applied) -> None:
    """Without force: the operator wrote to the RayService meanwhile, and a field that both own would be a conflict."""
    before = made.service["metadata"]["generation"]
    made.cluster.apply(made.manifests)
    assert made.service["metadata"]["generation"] == before


# --- the end: keep this test last, it takes the service away


def test_S_a_cluster_that_leaves_empties_its_redis(made: Applied) -> None:
    """KubeRay's Job for it must be admitted (PodSecurity) and reach that Redis (NetworkPolicy), or the cluster hangs for minutes."""
    (shipped,) = of_kind(made.manifests, "RayService")
    if "gcsFaultToleranceOptions" not in shipped["spec"]["rayClusterConfig"]:
        pytest.skip(f"{made.name} has no fault tolerance of the head")
    made.cluster.kubectl("delete", RAY, shipped["metadata"]["name"], "-n", made.namespace, "--wait=false")

    def made_pod() -> Manifest | None:
        return next(iter(made.objects("pods", CLEANUP)), None)

    pod = wait(made_pod, f"the clean-up has a pod ({made.cluster.warnings(made.namespace)})")
    labels = pod["metadata"]["labels"]
    (redis,) = (
        each for each in made.objects("pods") if each["metadata"]["labels"].get("app.kubernetes.io/name") == "ray-redis"
    )
    policies = [each["spec"] for each in made.objects("networkpolicies")]
    guards = [policy for policy in policies if _matches(policy["podSelector"], redis["metadata"]["labels"])]
    sources = [
        source["podSelector"]
        for policy in guards
        for rule in policy.get("ingress", [])
        for source in rule.get("from", [])
        if "podSelector" in source
    ]
    assert not guards or any(_matches(selector, labels) for selector in sources)
    allowed = [
        policy
        for policy in policies
        if "Egress" in policy.get("policyTypes", []) and _matches(policy["podSelector"], labels)
    ]
    targets = [
        target["podSelector"]
        for policy in allowed
        for rule in policy.get("egress", [])
        for target in rule.get("to", [])
        if "podSelector" in target
    ]
    assert not allowed or any(_matches(selector, redis["metadata"]["labels"]) for selector in targets)
