"""Nothing is written twice: what is committed is what the command makes, and our renderer makes what kubectl makes."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.kubernetes import generate
from deployments.kubernetes.kustomize import parse_documents, render
from deployments.kubernetes.serve_config import merged, overlay_config
from deployments.ray_environment import LOCAL_ENVIRONMENT, RAY_ENVIRONMENT
from memory.errors import ConfigError
from tests.k8s.offline import OVERLAYS, ROOT, objects, the


def test_what_is_committed_is_what_the_sources_say() -> None:
    stale = [str(path.relative_to(ROOT)) for path in generate.stale(ROOT)]
    assert stale == [], "run `strata kubernetes render`"


def test_three_overlays() -> None:
    assert OVERLAYS == ["dev", "gpu", "ha"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_our_renderer_makes_what_kubectl_makes(overlay: str) -> None:
    folder = ROOT / "k8s" / "overlays" / overlay
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=120, check=True
    )
    theirs = {_key(document): document for document in yaml.safe_load_all(done.stdout)}
    ours = {_key(document): document for document in objects(overlay)}
    assert ours.keys() == theirs.keys()
    for key, document in ours.items():
        assert document == theirs[key], key


def _key(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_ray_container_has_the_environment_of_the_module(overlay: str) -> None:
    """Written once, in deployments/ray_environment.py; what is only for one machine does not come along."""
    data = the(objects(overlay), "ConfigMap", "ray-environment")["data"]
    assert RAY_ENVIRONMENT.items() <= data.items()
    assert not LOCAL_ENVIRONMENT.keys() & data.keys()


def _documents(tmp_path: Path, files: dict[str, str]) -> list[dict[str, Any]]:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return render(tmp_path)


SERVICE = "kind: RayService\nmetadata: {name: a}\nspec: {list: [1, 2], map: {x: 1, y~: 2}}\n"


@pytest.mark.parametrize(
    ("kustomization", "says"),
    [
        ("resources: [a.yaml]\ncomponents: [x]\n", "`components` is not rendered here"),
        ("resources: [b.yaml]\n", "cannot be read"),
        ("resources: [a.yaml]\npatches: [{target: {kind: Job}, patch: '[]'}]\n", "is patched, but is not there"),
        ("configMapGenerator: [{name: m, files: [a.yaml]}]\n", "disableNameSuffixHash"),
        (
            "resources: [a.yaml]\npatches: [{target: {kind: RayService}, patch: '[{op: move, path: /spec/list}]'}]\n",
            "`move` is not rendered here",
        ),
        (
            "resources: [a.yaml]\npatches: [{target: {kind: RayService}, patch: '[{op: replace, path: /spec/z, value: 1}]'}]\n",
            "is patched, but is not there",
        ),
        (
            "resources: [a.yaml]\npatches: [{target: {kind: RayService}, patch: '[{op: test, path: /spec/list/0, value: 7}]'}]\n",
            "the patch is written for 7",
        ),
    ],
)
def test_the_renderer_refuses_what_it_does_not_know(tmp_path: Path, kustomization: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("(", r"\(")):
        _documents(tmp_path, {"a.yaml": SERVICE, "kustomization.yaml": kustomization})


def test_operations_and_merge_patches(tmp_path: Path) -> None:
    patch = (
        "- {op: add, path: /spec/list/-, value: 3}\n- {op: add, path: /spec/list/0, value: 0}\n- {op: remove, path: /spec/map/x}\n"
        "- {op: replace, path: /spec/map/y~0, value: 5}\n- {op: add, path: /spec/a~1b, value: 6}"
    )
    files = {
        "a.yaml": SERVICE,
        "b.yaml": "kind: RayService\nmetadata: {name: a}\nspec: {map: {y~: 7, z: 8}, list: null}\n",
        "kustomization.yaml": yaml.safe_dump(
            {
                "resources": ["a.yaml"],
                "patches": [{"target": {"kind": "RayService"}, "patch": patch}, {"path": "b.yaml"}],
            }
        ),
    }
    [document] = _documents(tmp_path, files)
    assert document["spec"] == {"map": {"y~": 7, "z": 8}, "a/b": 6}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Job\nmetadata: {name: n}\n", r"m\.yaml:2: `n` is a boolean to kubectl"),
        ("kind: Job\nkind: Job\nmetadata: {name: a}\n", "there twice"),
        ("kind: Job\nmetadata: {}\n", "kind and metadata.name"),
        ("kind: Job\nmetadata:\n", "kind and metadata.name"),
        ("- 1\n", "kind and metadata.name"),
    ],
)
def test_manifests_are_read_strictly(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_documents(text, "m.yaml")


def test_the_items_of_a_list_are_objects() -> None:
    text = "kind: List\nitems:\n  - {kind: Job, metadata: {name: a}}\n  - {kind: Job, metadata: {name: 'n'}}\n"
    assert [document["metadata"]["name"] for document in parse_documents(text, "m")] == ["a", "n"]


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": None}, {"b": 1}, {"a": None, "b": 1}),  # route_prefix: null is a value of the base
        ({"a": 1}, {"a": {"x": 1, "y": None}}, {"a": {"x": 1}}),
        (
            [{"name": "p", "v": 1}, {"name": "q"}],
            [{"name": "q", "v": 2}],
            [{"name": "p", "v": 1}, {"name": "q", "v": 2}],
        ),
        ([{"name": "p"}], [{"name": "r", "v": 1}], [{"name": "p"}, {"name": "r", "v": 1}]),
        ([{"name": "p", "v": {"x": 1}}], [{"name": "p", "v": None}], [{"name": "p"}]),
    ],
)
def test_merged(base: Any, over: Any, result: Any) -> None:
    before = yaml.safe_dump([base, over])
    assert merged(base, over) == result
    assert yaml.safe_dump([base, over]) == before


def test_merged_refuses_a_name_twice() -> None:
    with pytest.raises(ConfigError, match="one item twice"):
        merged([{"name": "p"}], [{"name": "p"}, {"name": "p"}])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "applications: [{name: inference, deployments: [{name: Embedder, num_replica: 2}]}]",
            "did you mean `num_replicas`",
        ),
        (
            "applications: [{name: inference, deployments: [{name: Embedder, autoscaling_config: {max_replica: 2}, num_replicas: null}]}]",
            "did you mean `max_replicas`",
        ),
        (
            "applications: [{name: inference, deployments: [{name: Embedder, num_replicas: 1, autoscaling_config: {max_replicas: 2}}]}]",
            "num_replicas is not allowed when autoscaling_config",
        ),
        (
            "applications: [{name: inference, deployments: [{name: Embedder, ray_actor_options: {num_cpus: null}}]}]",
            "say num_cpus too",
        ),
        ("applications: [{name: inference, args: {embeder: {}}}]", "did you mean `embedder`"),
        ("- 1", "mapping of keys"),
    ],
)
def test_an_overlay_that_nobody_could_serve_is_refused(tmp_path: Path, change: str, says: str) -> None:
    over = tmp_path / "serve.yaml"
    over.write_text(change + "\n", "utf-8")
    with pytest.raises(ConfigError, match=says) as error:
        overlay_config([ROOT / "configs" / "production.yaml", ROOT / "k8s" / "serve.yaml", over])
    assert "serve.yaml" in str(error.value)


def test_sizes_and_environment_change_the_annotation() -> None:
    """Neither reaches a running cluster by itself."""
    group = {"groupName": "api", "minReplicas": 1, "maxReplicas": 2}
    first = generate.rolls_with({"A": "1", "B": "2"}, [group])
    assert first == generate.rolls_with({"B": "2", "A": "1"}, [{**group, "template": {}}])
    assert first != generate.rolls_with({"A": "1", "B": "3"}, [group])
    assert first != generate.rolls_with({"A": "1", "B": "2"}, [{**group, "maxReplicas": 3}])
