"""What is put into a shipped manifest on purpose, and who has to notice. Only data and the one function that puts it in."""

import copy
from dataclasses import dataclass
from typing import Any

import yaml

Manifest = dict[str, Any]

HEAD = "spec.rayClusterConfig.headGroupSpec"
GROUP = "spec.rayClusterConfig.workerGroupSpecs.0"
RAY = "template.spec.containers.0"
SERVE = "spec.serveConfigV2: "


class _Gone:
    """Takes what is there away instead of putting something in its place."""


GONE = _Gone()


@dataclass(frozen=True)
class Mistake:
    """`value` at `path` (dots part the steps, a number is a place in a list); `says` is in what whoever notices answers.

    A path that starts with SERVE goes on inside the text of serveConfigV2.
    """

    path: str
    value: Any
    says: str

    @property
    def id(self) -> str:
        end = self.path.rsplit(".", 2)[-2:]
        return ".".join(end) if self.value is not GONE else f"no-{end[-1]}"

    def into(self, manifest: Manifest) -> Manifest:
        """A copy of the manifest with the mistake in it. Makes what is missing on the way."""
        wrong = copy.deepcopy(manifest)
        if self.path.startswith(SERVE):
            inner = Mistake(self.path.removeprefix(SERVE), self.value, self.says)
            wrong["spec"]["serveConfigV2"] = yaml.safe_dump(
                inner.into(yaml.safe_load(manifest["spec"]["serveConfigV2"])), sort_keys=False
            )
            return wrong
        at: Any = wrong
        *way, last = self.path.split(".")
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        if isinstance(self.value, _Gone):
            del at[last]
        elif isinstance(at, list):
            at[int(last)] = self.value
        else:
            at[last] = self.value
        return wrong


def _unknown(path: str) -> Mistake:
    return Mistake(path, {}, path.rsplit(".", 1)[-1])


def _mistyped(path: str, value: Any) -> Mistake:
    steps = [step for step in path.split(".") if not step.isdigit()]
    return Mistake(path, value, steps[-1])


_POD = "spec.template.spec"

REFUSED: dict[str, list[Mistake]] = {
    # The API server, before anything is stored: a strict dry run is enough.
    "Namespace": [_unknown("spec.finalizer"), _mistyped("metadata.labels", "restricted")],
    "ConfigMap": [_unknown("dataa"), _mistyped("data.port", 8000)],
    "Secret": [_unknown("stringdata"), _mistyped("stringData.port", 8000)],
    "Service": [_unknown("spec.port"), _mistyped("spec.ports.0.port", "http")],
    "StatefulSet": [_unknown(f"{_POD}.containers.0.readynessProbe"), _mistyped("spec.serviceName", 3)],
    "Job": [_unknown("spec.backOffLimit"), _mistyped("spec.activeDeadlineSeconds", "long")],
    "NetworkPolicy": [_unknown("spec.ingres"), _mistyped("spec.policyTypes", "Ingress")],
    "PodDisruptionBudget": [_unknown("spec.minAvailables"), _mistyped("spec.selector.matchLabels", ["ray"])],
    "PodMonitor": [_unknown("spec.podMetricsEndpoint"), _mistyped("spec.podMetricsEndpoints.0.interval", 15)],
    "PrometheusRule": [_unknown("spec.groups.0.rule"), _mistyped("spec.groups.0.rules.0.for", 5)],
    "RayService": [
        _unknown("spec.serveConfig"),
        _unknown(f"{HEAD}.headServices"),
        _unknown(f"{GROUP}.{RAY}.resource"),
        _unknown(f"{GROUP}.{RAY}.securityContext.runAsNonroot"),
        _mistyped("spec.serveConfigV2", {"applications": []}),
        _mistyped("spec.upgradeStrategy", "NewCluster"),
        _mistyped("spec.rayClusterConfig.rayVersion", 2.6),
        _mistyped(f"{HEAD}.rayStartParams.num-cpus", 0),
        _mistyped("spec.rayClusterConfig.autoscalerOptions.version", "v3"),
        _mistyped(f"{GROUP}.{RAY}.resources.requests.memory", "4 GB"),
        Mistake(f"{GROUP}.groupName", GONE, "groupName"),
    ],
}

_REDIS = {"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}

INVALID: list[tuple[str, list[Mistake]]] = [
    # KubeRay's operator, as Ready=False with the reason ValidationFailed and a Warning; the API server stores it.
    (
        "an upgrade of no known kind",
        [Mistake("spec.upgradeStrategy", {"type": "Rolling"}, "UpgradeStrategy.Type value Rolling")],
    ),
    (
        "incremental without options",
        [Mistake("spec.upgradeStrategy", {"type": "NewClusterWithIncrementalUpgrade"}, "ClusterUpgradeOptions")],
    ),
    ("Redis named twice", [Mistake(f"{HEAD}.{RAY}.env", [_REDIS], "RAY_REDIS_ADDRESS")]),
    (
        "autoscaler named twice",
        [
            Mistake(
                f"{HEAD}.{RAY}.env", [{"name": "RAY_enable_autoscaler_v2", "value": "1"}], "RAY_enable_autoscaler_v2"
            )
        ],
    ),
    (
        "more at least than at most",
        [Mistake(f"{GROUP}.minReplicas", 9, ""), Mistake(f"{GROUP}.maxReplicas", 2, "greater than maxReplicas")],
    ),
    (
        "CPUs counted twice",
        [
            Mistake(f"{GROUP}.rayStartParams.num-cpus", "2", ""),
            Mistake(f"{GROUP}.resources", {"CPU": "2"}, "both rayStartParams and Resources"),
        ],
    ),
    ("pods that restart", [Mistake(f"{GROUP}.template.spec.restartPolicy", "Always", "restartPolicy")]),
    (
        "no version of Ray",
        [Mistake("spec.rayClusterConfig.rayVersion", GONE, "RayVersion was not specified")],
    ),  # with authOptions
    ("a word for a version", [Mistake("spec.rayClusterConfig.rayVersion", "latest", "RayVersion format is invalid")]),
    ("a long name", [Mistake("metadata.name", "a" * 48, "no more than 47")]),
]

CLUSTER_ONLY: list[tuple[str, Mistake]] = [
    # Only a Warning on the RayCluster: the RayService says Initializing for ever.
    (
        "requests over limits",
        Mistake(f"{HEAD}.{RAY}.resources", {"requests": {"cpu": "8"}, "limits": {"cpu": "1"}}, "must be less than"),
    ),
    ("no image", Mistake(f"{HEAD}.{RAY}.image", "", "image")),
    ("a long port name", Mistake(f"{HEAD}.{RAY}.ports.0.name", "a-port-with-a-long-name", "no more than 15")),
    (
        "a volume that is not",
        Mistake(f"{HEAD}.{RAY}.volumeMounts", [{"name": "no-such-volume", "mountPath": "/none"}], "no-such-volume"),
    ),
    ("root", Mistake(f"{HEAD}.{RAY}.securityContext", {"privileged": True}, "violates PodSecurity")),
]

UNSEEN: list[tuple[str, list[Mistake]]] = [
    # Nobody: stored, judged valid, its cluster and pods made without a word. Only our lint says so.
    ("a key that Serve does not know", [Mistake(f"{SERVE}applications.0.routeprefix", "/", "routeprefix")]),
    (
        "an option that Serve does not know",
        [Mistake(f"{SERVE}applications.0.deployments.0.num_replica", 3, "num_replica")],
    ),
    (
        "a resource that Ray does not know",
        [Mistake(f"{SERVE}applications.0.deployments.0.ray_actor_options.num_cpu", 1, "num_cpu")],
    ),
    ("workers of any size", [Mistake(f"{GROUP}.{RAY}.resources", GONE, "resources")]),
    (
        "fault tolerance without a Redis",
        [Mistake("spec.rayClusterConfig.gcsFaultToleranceOptions", {"externalStorageNamespace": "x"}, "redisAddress")],
    ),
    (
        "one storage for two clusters",
        [
            Mistake(
                "spec.rayClusterConfig.gcsFaultToleranceOptions.externalStorageNamespace",
                "strata",
                "externalStorageNamespace",
            )
        ],
    ),
    ("two groups of one name", [Mistake("spec.rayClusterConfig.workerGroupSpecs.1.groupName", "api", "groupName")]),
    ("more than at most", [Mistake(f"{GROUP}.replicas", 99, "maxReplicas")]),
    ("ports without serve", [Mistake(f"{HEAD}.{RAY}.ports", [{"name": "dashboard", "containerPort": 8265}], "serve")]),
    (
        "ports without dashboard",
        [Mistake(f"{HEAD}.{RAY}.ports", [{"name": "serve", "containerPort": 8000}], "dashboard")],
    ),
    ("no upgrade", [Mistake("spec.upgradeStrategy", {"type": "None"}, "upgradeStrategy")]),
    (
        "a short grace period",
        [Mistake(f"{GROUP}.template.spec.terminationGracePeriodSeconds", 5, "terminationGracePeriodSeconds")],
    ),
    ("an open cluster", [Mistake("spec.rayClusterConfig.authOptions", GONE, "authOptions")]),
]
