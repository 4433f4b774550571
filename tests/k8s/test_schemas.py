"""Every object of every overlay against the schemas of those who will read it, with unknown fields refused."""

import copy
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from deployments.tenancy import read_tenant_files
from tests.k8s.offline import CRD, OVERLAYS, ROOT, objects, rayservice_validator, the

VERSIONS = ["1.33", "1.36"]
"""The oldest and the newest Kubernetes that these manifests are written for."""
CUSTOM = {"RayService", "PodMonitor", "PrometheusRule"}

needs_crd = pytest.mark.skipif(not CRD.is_file(), reason="KubeRay's custom resource definition is not at hand")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_own_kinds(overlay: str, version: str) -> None:
    checked = 0
    for document in objects(overlay):
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, version, strict=True)
            checked += 1
    assert checked >= 14


def test_the_schemas_refuse_an_unknown_field() -> None:
    job = the(objects("dev"), "Job", "strata-migrate")
    job["spec"]["template"]["spec"]["containers"][0]["ressources"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


@needs_crd
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_rayservice(overlay: str) -> None:
    service = the(objects(overlay), "RayService")
    assert [error.json_path for error in rayservice_validator().iter_errors(service)] == []


@needs_crd
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.rayClusterConfig.workerGroupSpecs.0.template.spec.containers.0.resource", {}),
        ("spec.rayClusterConfig.headGroupSpec.rayStartParams", {"num-cpus": 0}),
        ("spec.rayClusterConfig.rayVersion", 2.60),
        ("spec.upgradeStrategy", "NewCluster"),
        ("spec.rayClusterConfig.autoscalerOptions.version", "v3"),
        ("spec.serveConfigV2", {"applications": []}),
        ("spec.rayClusterConfig.workerGroupSpecs.0.template.spec.containers.0.resources.limits.memory", "4 GB"),
    ],
)
def test_the_rayservice_schema_refuses(path: str, value: Any) -> None:
    service = the(objects("dev"), "RayService")
    at: Any = service
    *way, last = path.split(".")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[last] = value
    assert list(rayservice_validator().iter_errors(service))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_serve_config_is_one_for_ray_too(overlay: str) -> None:
    text = the(objects(overlay), "RayService")["spec"]["serveConfigV2"]
    config = yaml.safe_load(text)
    ServeDeploySchema.model_validate(copy.deepcopy(config))
    assert the(objects(overlay), "ConfigMap", "strata-serve")["data"]["serve.yaml"] == text


MONITOR_ENDPOINT = {"port", "interval", "scrapeTimeout", "path"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_monitors_and_rules(overlay: str) -> None:
    """The Prometheus operator's kinds: only fields that it has, and in the namespace of the service."""
    for document in objects(overlay):
        if document["kind"] == "PodMonitor":
            assert document["apiVersion"] == "monitoring.coreos.com/v1"
            assert document["spec"].keys() == {"selector", "podTargetLabels", "podMetricsEndpoints"}
            for endpoint in document["spec"]["podMetricsEndpoints"]:
                assert endpoint.keys() <= MONITOR_ENDPOINT
        if document["kind"] == "PrometheusRule":
            for group in document["spec"]["groups"]:
                assert group.keys() <= {"name", "interval", "rules"}
                for rule in group["rules"]:
                    assert rule.keys() <= {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}
                    assert ("alert" in rule) != ("record" in rule)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_tenant_files(overlay: str) -> None:
    """What the Job will declare can be declared; keys come from the environment, and none is generated in a pod that is thrown away."""
    tenants = read_tenant_files(ROOT / "k8s" / "overlays" / overlay / "tenants")
    assert tenants
    for tenant in tenants:
        for key in tenant.keys:
            assert key.secret.startswith("env:")
            assert not key.generate
