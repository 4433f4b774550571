"""Mistakes that the lint must find: what is put where into overlay `ha`, and what is then said. Only data."""

from dataclasses import dataclass
from typing import Any

from deployments.kubernetes.generate import ROLLS

HEAD = "spec.rayClusterConfig.headGroupSpec"
API = "spec.rayClusterConfig.workerGroupSpecs.0"
MODELS = "spec.rayClusterConfig.workerGroupSpecs.1"
CLUSTER = "spec.rayClusterConfig"
GONE = object()


@dataclass(frozen=True)
class Case:
    """`value` put at `path` of an object of overlay ha; `where` and `says` are in what is found."""

    rule: str
    object: str
    path: str
    value: Any
    where: str
    says: str


def put(rule: str, name: str, path: str, value: Any, where: str, says: str) -> Case:
    return Case(rule, name, path, value, where, says)


RAY = "RayService strata"
MIGRATE = "Job strata-migrate"
CONTAINER = "template.spec.containers.0"

CASES = [
    # rayVersion
    put("ray_version", RAY, f"{CLUSTER}.rayVersion", GONE, "rayVersion", "the probes depend on it"),
    put("ray_version", RAY, f"{CLUSTER}.rayVersion", "latest", "rayVersion", "'latest'"),
    put("ray_version", RAY, f"{CLUSTER}.rayVersion", "2.41.0", "rayVersion", "is 2.41.0"),
    # the head
    put("head_takes_no_work", RAY, f"{HEAD}.rayStartParams", {}, "headGroupSpec.rayStartParams", 'num-cpus: "0"'),
    put("head_takes_no_work", RAY, f"{HEAD}.rayStartParams.num-cpus", "2", "headGroupSpec.rayStartParams", "starve"),
    put(
        "head_ports",
        RAY,
        f"{HEAD}.{CONTAINER}.ports",
        [{"name": "serve", "containerPort": 8000}],
        "ports",
        "`dashboard`",
    ),
    put(
        "head_ports",
        RAY,
        f"{HEAD}.{CONTAINER}.ports",
        [{"name": "dashboard", "containerPort": 8265}],
        "ports",
        "`serve`",
    ),
    # fault tolerance
    put(
        "fault_tolerance", RAY, f"{CLUSTER}.gcsFaultToleranceOptions.redisAddress", GONE, "gcsFault", "no redisAddress"
    ),
    put(
        "fault_tolerance",
        RAY,
        f"{CLUSTER}.gcsFaultToleranceOptions.externalStorageNamespace",
        "one",
        "externalStorageNamespace",
        "would share",
    ),
    put(
        "fault_tolerance",
        RAY,
        "metadata.annotations",
        {"ray.io/external-storage-namespace": "one"},
        "metadata.annotations",
        "would share",
    ),
    put(
        "fault_tolerance",
        RAY,
        f"{CLUSTER}.gcsFaultToleranceOptions.redisPassword",
        {"value": "x"},
        "redisPassword",
        "secretKeyRef",
    ),
    # groups
    put("groups", RAY, f"{MODELS}.groupName", "api", "workerGroupSpecs[1].groupName", "there twice"),
    put("groups", RAY, f"{API}.replicas", 40, "workerGroupSpecs[0].replicas", "over maxReplicas"),
    put("groups", RAY, f"{API}.minReplicas", 40, "workerGroupSpecs[0].minReplicas", "over maxReplicas"),
    put("groups", RAY, f"{API}.maxReplicas", GONE, "workerGroupSpecs[0].maxReplicas", "without end"),
    put("groups", RAY, f"{API}.scaleStrategy", GONE, "workerGroupSpecs[0]", "server-side apply"),
    put("groups", RAY, f"{MODELS}.template.metadata", GONE, "workerGroupSpecs[1]", "server-side apply"),
    # upgrades
    put("upgrade_strategy", RAY, "spec.upgradeStrategy", {"type": "None"}, "upgradeStrategy.type", "never applied"),
    put(
        "upgrade_strategy",
        RAY,
        "spec.upgradeStrategy.clusterUpgradeOptions.gatewayClassName",
        "",
        "gatewayClassName",
        "moved by a Gateway",
    ),
    put(
        "upgrade_strategy",
        RAY,
        "spec.upgradeStrategy.clusterUpgradeOptions",
        GONE,
        "gatewayClassName",
        "moved by a Gateway",
    ),
    put(
        "upgrade_strategy",
        RAY,
        f"{CLUSTER}.upgradeStrategy",
        {"type": "Recreate"},
        "rayClusterConfig.upgradeStrategy",
        "RayCluster",
    ),
    put("sizes_and_environment_roll", RAY, f"{API}.maxReplicas", 13, "annotations", "do not reach a running cluster"),
    put("sizes_and_environment_roll", "ConfigMap ray-environment", "data.OMP_NUM_THREADS", "2", "annotations", ROLLS),
    put("sizes_and_environment_roll", RAY, f"{HEAD}.template.metadata.annotations", GONE, "annotations", "is None"),
    # scaling and access
    put("autoscaler", RAY, f"{CLUSTER}.enableInTreeAutoscaling", GONE, "enableInTreeAutoscaling", "nobody makes"),
    put(
        "autoscaler", RAY, f"{CLUSTER}.autoscalerOptions.version", "v1", "autoscalerOptions.version", "label selectors"
    ),
    put("authentication", RAY, f"{CLUSTER}.authOptions", GONE, "authOptions", "runs code"),
    # the Serve configuration
    put("serve_config", RAY, "spec.serveConfigV2", GONE, "serveConfigV2", "is missing"),
    put("serve_config", RAY, "spec.serveConfigV2", "applications: [", "serveConfigV2", "serveConfigV2:1"),
    put("serve_config", RAY, "spec.serveConfigV2", "applications: []\n", "serveConfigV2", "is missing"),
    # pods
    put(
        "resources",
        RAY,
        f"{API}.{CONTAINER}.resources",
        GONE,
        "workerGroupSpecs[0].template.spec.containers[0]",
        "requests.cpu",
    ),
    put("resources", RAY, f"{API}.{CONTAINER}.resources.limits", {"cpu": "2"}, "resources", "limits.memory"),
    put(
        "resources", RAY, f"{API}.{CONTAINER}.resources.requests.memory", "8Gi", "resources", "more memory than limits"
    ),
    put(
        "resources",
        RAY,
        f"{API}.template.spec.initContainers.0.resources",
        GONE,
        "initContainers[0]",
        "requests.memory",
    ),
    put("resources", MIGRATE, f"spec.{CONTAINER}.resources", GONE, "spec.template.spec.containers[0]", "limits.memory"),
    put("locked_down", RAY, f"{HEAD}.{CONTAINER}.securityContext", GONE, "headGroupSpec", "drop: [ALL]"),
    put(
        "locked_down",
        RAY,
        f"{API}.{CONTAINER}.securityContext.allowPrivilegeEscalation",
        True,
        "containers[0]",
        "Escalation: false",
    ),
    put(
        "locked_down",
        RAY,
        f"{CLUSTER}.autoscalerOptions.securityContext",
        GONE,
        "autoscalerOptions.securityContext",
        "PodSecurity",
    ),
    put(
        "locked_down",
        RAY,
        f"{MODELS}.template.spec.initContainers.0.securityContext",
        GONE,
        "initContainers[0]",
        "PodSecurity",
    ),
    put(
        "locked_down", "StatefulSet ray-redis", f"spec.{CONTAINER}.securityContext", {}, "containers[0]", "PodSecurity"
    ),
    put("images", RAY, f"{API}.{CONTAINER}.image", "strata-cpu:latest", "containers[0].image", "name a version"),
    put(
        "images",
        RAY,
        f"{API}.{CONTAINER}.image",
        "reg.example:5000/strata-cpu",
        "containers[0].image",
        "name a version",
    ),
    put("images", MIGRATE, f"spec.{CONTAINER}.image", GONE, "image", "is missing"),
    put("one_image_version", MIGRATE, f"spec.{CONTAINER}.image", "strata-cpu:0.2.0", "tag", "several versions"),
    put(
        "grace", RAY, f"{API}.template.spec.terminationGracePeriodSeconds", 30, "terminationGracePeriodSeconds", "is 30"
    ),
    put(
        "grace",
        RAY,
        f"{HEAD}.template.spec.terminationGracePeriodSeconds",
        GONE,
        "terminationGracePeriodSeconds",
        "is 30",
    ),
    put("volumes", RAY, f"{API}.{CONTAINER}.volumeMounts.0.name", "scratchy", "volumeMounts", "no volume `scratchy`"),
    put("volumes", RAY, f"{API}.{CONTAINER}.volumeMounts.0.mountPath", "/scratch", "volumeMounts", "writes to /tmp"),
    put("volumes", RAY, f"{API}.{CONTAINER}.ports.0.name", "serve-http-and-more", "ports", "over 15 characters"),
    put(
        "volumes",
        "StatefulSet ray-redis",
        f"spec.{CONTAINER}.volumeMounts.0.name",
        "dat",
        "volumeMounts",
        "no volume `dat`",
    ),
    put(
        "config_maps",
        RAY,
        f"{API}.template.spec.volumes.3.configMap.name",
        "strata-serv",
        "volumes",
        "no ConfigMap `strata-serv`",
    ),
    put(
        "config_maps", MIGRATE, f"spec.{CONTAINER}.envFrom.0.configMapRef.name", "env", "envFrom", "no ConfigMap `env`"
    ),
    put("ray_environment", RAY, f"{API}.{CONTAINER}.envFrom", GONE, "envFrom", "every node of Ray"),
    put(
        "ray_environment",
        RAY,
        f"{API}.{CONTAINER}.env",
        [{"name": "RAY_ADDRESS", "value": "local"}],
        "env",
        "operator says",
    ),
    put(
        "ray_environment", "ConfigMap ray-environment", "data.RAY_ADDRESS", "local", "data.RAY_ADDRESS", "operator says"
    ),
    put(
        "liveness_asks_no_store",
        RAY,
        f"{API}.{CONTAINER}.livenessProbe",
        {"httpGet": {"path": "/readyz", "port": 8000}},
        "livenessProbe",
        "use /healthz",
    ),
    # surroundings
    put("budgets", "PodDisruptionBudget strata-api", "spec.minAvailable", "50%", "spec", "blocks every eviction"),
    put("budgets", "PodDisruptionBudget strata-api", "spec.maxUnavailable", 1, "spec", "blocks every eviction"),
    put("budgets", "PodDisruptionBudget strata-api", "spec.minAvailable", 3, "spec.minAvailable", "3 of at least 3"),
    put(
        "budgets",
        "PodDisruptionBudget strata-api",
        "spec.selector.matchLabels",
        {"ray.io/node-type": "head"},
        "selector",
        "the head",
    ),
    put("default_deny", "NetworkPolicy default-deny", "spec.policyTypes", ["Ingress"], "spec", "denies Egress"),
    put(
        "default_deny",
        "NetworkPolicy default-deny",
        "spec.podSelector",
        {"matchLabels": {"a": "b"}},
        "spec",
        "denies Ingress",
    ),
    put("open_ports", "NetworkPolicy callers", "spec.ingress.0.from", GONE, "spec.ingress[0].from", "everybody"),
    put("open_ports", "NetworkPolicy callers", "spec.ingress.0.ports", GONE, "spec.ingress[0].ports", "are all"),
    put(
        "open_ports",
        "NetworkPolicy callers",
        "spec.ingress.0.ports.0.port",
        8404,
        "spec.ingress[0].ports",
        "statistics",
    ),
    put(
        "redis_cleanup",
        "NetworkPolicy ray-redis",
        "spec.ingress.0.from.0.podSelector",
        {"matchLabels": {"ray.io/node-type": "head"}},
        "NetworkPolicy",
        "redis-cleanup",
    ),
    put(
        "ray_redis_is_its_own",
        "StatefulSet ray-redis",
        "spec.template.metadata.labels.strata/store",
        "sessions",
        "gcs",
        "its own",
    ),
    put(
        "services",
        "Service ray-redis",
        "spec",
        {"type": "LoadBalancer", "ports": [{"port": 8404}]},
        "spec.ports",
        "statistics",
    ),
    put(
        "monitors",
        "PodMonitor strata",
        "spec.podMetricsEndpoints.0.port",
        "stratta",
        "podMetricsEndpoints",
        "named `stratta`",
    ),
    put("monitors", "PodMonitor strata", "spec.selector", {"matchLabels": {"app": "x"}}, "spec.selector", "no pod"),
]
