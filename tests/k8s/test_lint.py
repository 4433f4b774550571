"""Every rule of the lint: what it finds names the object, the place and what to do. The overlays themselves are clean."""

from collections.abc import Callable
from typing import Any

import pytest

from deployments.kubernetes.lint import RULES, findings
from deployments.kubernetes.lint.documents import Document, Finding, selects
from deployments.kubernetes.lint.serve import DEPLOYMENTS, quantity
from tests.k8s.lint_cases import CASES, GONE, Case
from tests.k8s.offline import OVERLAYS, objects, the


def _put(documents: list[Document], case: Case) -> None:
    kind, name = case.object.split()
    at: Any = the(documents, kind, name)
    *way, last = _steps(case.path)
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    if case.value is GONE:
        del at[last]
    else:
        at[last] = case.value


def _steps(path: str) -> list[str]:
    """A key with a slash in it may hold dots before the slash; ours do not."""
    return path.split(".")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_overlays_are_clean(overlay: str) -> None:
    assert [str(finding) for finding in findings(objects(overlay))] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.path.rsplit('.', 1)[-1]}")
def test_a_mistake_is_found(case: Case) -> None:
    documents = objects("ha")
    _put(documents, case)
    found = [finding for finding in _rule(case.rule)(documents) if case.says in finding.says]
    assert found, [str(finding) for finding in findings(documents)]
    assert case.where in found[0].path
    assert len(found[0].object.split()) == 2 or found[0].object in ("images", "NetworkPolicy")


def test_every_rule_has_a_case() -> None:
    others = {"placement", "capacity", "references", "horizontal_autoscalers", "no_secrets"}  # tested below
    assert {rule.__name__ for rule in RULES} == {case.rule for case in CASES} | others


def _rule(name: str) -> Callable[[list[Document]], Any]:
    [rule] = [rule for rule in RULES if rule.__name__ == name]
    return rule


@pytest.mark.parametrize(
    ("old", "new", "rule", "says"),
    [
        ("strata-group: models", "strata-group: model", "placement", "no worker group has the labels"),
        ("num_cpus: 0.5", "num_cpus: 3", "placement", "too small for {'num_cpus': 3}"),
        (
            "pepper: env:STRATA_PEPPER",
            "pepper: env:STRATA_SALT",
            "references",
            "env:STRATA_SALT is not given to pods of api",
        ),
        (
            "strata-group: api",
            "strata-group: models",
            "references",
            "env:STRATA_MASTER_KEY is not given to pods of models",
        ),
        ("port: 8000", "port: 8700", "serve_config", "probes and services look at 8000"),
        ("host: 0.0.0.0", "host: 127.0.0.1", "serve_config", "nobody outside the pod"),
        ("- name: MemoryApi", "- name: MemoryAPI", "serve_config", "there is Curator, MemoryApi"),
        ("route_prefix: /\n", "routeprefix: /\n", "serve_config", "did you mean `route_prefix`"),
        ("num_cpus: 0.5", "num_cpu: 0.5", "serve_config", "did you mean `num_cpus`"),
        ("label_selector:", "label_selectors:", "serve_config", "did you mean `label_selector`"),
        ("    embedder:", "    embeder:", "serve_config", "did you mean `embedder`"),
        ("deployments.memory_app:app", "deployments.memory_app", "serve_config", "import_path"),
        ("deployments.memory_app:app", "deployments.memory_api:app", "serve_config", "import_path"),
        ("name: memory", "name: context", "serve_config", "multiple configs"),
        ("route_prefix: /\n", "route_prefix: memory\n", "serve_config", "route_prefix"),
        (
            "master_key: env:STRATA_MASTER_KEY",
            "master_keys: env:STRATA_MASTER_KEY",
            "serve_config",
            "did you mean `master_key`",
        ),
    ],
)
def test_mistakes_in_the_serve_configuration(old: str, new: str, rule: str, says: str) -> None:
    """Ray takes the unknown keys in silence; of the rest it tells only its own status, and the RayService stays Ready."""
    documents = objects("ha")
    service = the(documents, "RayService")
    assert old in service["spec"]["serveConfigV2"]
    service["spec"]["serveConfigV2"] = service["spec"]["serveConfigV2"].replace(old, new)
    found: list[Finding] = list(_rule(rule)(documents))
    assert any(says in finding.says for finding in found), [str(finding) for finding in found]


def test_a_gpu_is_only_where_a_pod_has_one() -> None:
    documents = objects("gpu")
    container = the(documents, "RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"][1]["template"]["spec"][
        "containers"
    ][0]
    for resources in container["resources"].values():
        del resources["nvidia.com/gpu"]
    [finding] = _rule("placement")(documents)
    assert "num_gpus" in finding.says


def test_a_deployment_says_where_it_runs() -> None:
    documents = objects("dev")
    service = the(documents, "RayService")
    text = service["spec"]["serveConfigV2"]
    service["spec"]["serveConfigV2"] = text.replace("      label_selector:\n        strata-group: models\n", "")
    assert text != service["spec"]["serveConfigV2"]
    assert [finding.says for finding in _rule("placement")(documents)] == [
        "inference.Embedder: say with label_selector which group it runs on"
    ]


def test_no_pod_autoscaler_over_ray() -> None:
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": {"kind": "RayCluster"}},
    }
    [finding] = _rule("horizontal_autoscalers")([scaler])
    assert str(finding).startswith("HorizontalPodAutoscaler a: spec.scaleTargetRef: ")


def test_no_secret_among_the_manifests() -> None:
    [finding] = _rule("no_secrets")([{"kind": "Secret", "metadata": {"name": "a"}, "data": {}}])
    assert "strata kubernetes secrets" in finding.says


def test_token_mode_in_the_environment_alone() -> None:
    """The operator gets 401 and the service is never ready."""
    documents = objects("dev")
    the(documents, "ConfigMap", "ray-environment")["data"]["RAY_AUTH_MODE"] = "token"
    del the(documents, "RayService")["spec"]["rayClusterConfig"]["authOptions"]
    [finding] = _rule("authentication")(documents)
    assert "locks the operator out" in finding.says


def test_the_rules_take_what_is_half_there() -> None:
    """Whatever an API server might let through ends in findings, never in a traceback."""
    empty = [
        {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "a"}},
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "metadata": {"name": "b"},
            "spec": {"rayClusterConfig": None},
        },
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "c"}, "spec": None},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "d"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "e"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "f"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ray-environment"}},
        {"apiVersion": "v1", "kind": "CronJob", "metadata": {"name": "g"}},
        {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "h"}, "spec": {}},
    ]
    assert {finding.object for finding in findings(empty)} >= {"RayService a", "RayService b"}


@pytest.mark.parametrize(
    ("selector", "labels", "takes"),
    [
        ({}, {"a": "b"}, True),
        (None, {"a": "b"}, False),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_selects(selector: Any, labels: dict[str, str], takes: bool) -> None:
    assert selects(selector, labels) is takes


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), ("2", 2), (2, 2), ("4Gi", 4 * 2**30), ("1G", 1e9), ("4 GB", 0), ("", 0), (None, 0)],
)
def test_quantity(text: Any, number: float) -> None:
    assert quantity(text) == number


def test_the_deployments_are_those_that_the_builders_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in a configuration that no builder makes is refused by Ray when it is too late to hear it."""
    from deployments import context_app, inference_app, memory_app
    from deployments.settings import ContextArgs, InferenceArgs, MemoryArgs
    from models.settings import RerankerSettings, SummarizerSettings

    monkeypatch.setenv("STRATA_PREPARED", "1")
    everything = InferenceArgs(reranker=RerankerSettings(model="m"), summarizer=SummarizerSettings(model="m"))
    applications = {
        "deployments.inference_app:app": inference_app.app(everything),
        "deployments.context_app:app": context_app.app(ContextArgs()),
        "deployments.memory_app:app": memory_app.app(MemoryArgs()),
    }
    assert {path: set(_names(application)) for path, application in applications.items()} == DEPLOYMENTS


def _names(value: Any) -> list[str]:
    """Of the deployments of a bound application, the ones that are bound into it included."""
    if isinstance(value, dict):
        return [name for inner in value.values() for name in _names(inner)]
    if isinstance(value, (list, tuple)):
        return [name for inner in value for name in _names(inner)]
    bound = getattr(value, "_bound_deployment", None)
    if bound is None:
        return []
    return [bound.name, *_names(bound.init_args), *_names(bound.init_kwargs)]
