"""Configuration is read strictly: each fault names the file, the key and the fix."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.serve_file import read_serve_file
from deployments.strict_yaml import read_yaml
from deployments.tenancy import read_tenant_file, read_tenant_files
from memory.errors import ConfigError

LOCAL = Path(__file__).resolve().parents[2] / "configs" / "local.yaml"


def written(tmp_path: Path, text: str, name: str = "tenant.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id: shop\npolicy:\n  recal: {}\n", "unknown key `policy.recal`; did you mean `recall`?"),
        ("id: shop\npolicy:\n  recall:\n    treshold: 0.4\n", "did you mean `threshold`?"),
        ("id: shop\nidd: shop\n", "unknown key `idd`"),
        ("id: 商店\n", "A-Z a-z 0-9"),
        ("id: 'shop '\n", "A-Z a-z 0-9"),
        ("id: shop\nid: shop\n", "`id` is there twice"),
        ("id: shop\npolicy:\n  recall:\n    threshold: 1.5\n", "`policy.recall.threshold`"),
        ("id: shop\nkeys:\n  - {name: a, secret: 'env:X', grants: [system]}\n", "never a key's"),
        ("id: shop\nkeys:\n  - {name: a, secret: 'env:X', grant: [memory]}\n", "did you mean `grants`?"),
        ("- a\n- b\n", "must be a mapping"),
        ("id: [\n", "tenant.yaml:"),
        ("", "must be a mapping"),
    ],
)
def test_a_faulty_tenant_file_names_file_key_and_fix(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        read_tenant_file(path)
    assert "tenant.yaml" in str(error.value)
    assert says in str(error.value)


def test_two_files_for_one_tenant(tmp_path: Path) -> None:
    written(tmp_path, "id: shop\n", "a.yaml")
    written(tmp_path, "id: shop\n", "b.yaml")
    with pytest.raises(ConfigError, match=r"declared in a\.yaml"):
        read_tenant_files(tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")


def options(document: Any, **said: Any) -> None:
    """Options of the first deployment, beside what Ray would mind."""
    deployment = document["applications"][0]["deployments"][0]
    deployment.pop("num_replicas")
    deployment.update(said)


def fused() -> Any:
    return yaml.safe_load(LOCAL.with_name("fused.yaml").read_text("utf-8"))["applications"][0]


def tokens(**aim: float) -> dict[str, Any]:
    return {"policy_function": "deployments.scaling:QueuedTokens", "policy_kwargs": aim}


def test_the_local_serve_file_is_good() -> None:
    file = read_serve_file(LOCAL)
    assert (file.host, file.port) == ("127.0.0.1", 8700)
    assert file.context.stores == file.memory.stores


def test_the_fused_file_shows_its_parts_as_the_split_ones() -> None:
    file, split = read_serve_file(LOCAL.with_name("fused.yaml")), read_serve_file(LOCAL)
    assert (file.topology, split.topology) == ("fused", "split")
    assert (file.inference.embedder, file.stores) == (split.inference.embedder, split.stores)
    assert file.memory.curator == split.memory.curator


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(aplications=[]), "unknown key `aplications`; did you mean `applications`?"),
        (lambda d: d["http_options"].update(prot=1), "unknown key `http_options.prot`; did you mean `port`?"),
        (lambda d: d["applications"][0].update(rout_prefix="/"), "did you mean `route_prefix`?"),
        (lambda d: d["applications"][0]["deployments"][0].update(num_replica=2), "did you mean `num_replicas`?"),
        (lambda d: options(d, ray_actor_options={"num_cpu": 1}), "did you mean `num_cpus`?"),
        (lambda d: options(d, autoscaling_config={"min_replica": 2}), "did you mean `min_replicas`?"),
        (lambda d: options(d, backpressure_config={"retry_after": 2}), "did you mean `retry_after_s`?"),
        (
            lambda d: options(d, autoscaling_config={"policy": {"polcy_function": "a:b"}}),
            "did you mean `policy_function`?",
        ),
        (lambda d: options(d, autoscaling_config={"policy": tokens(utilization=0.5)}), "did you mean `utilisation`?"),
        (lambda d: d["applications"][0]["args"].update(embeder={}), "unknown key `applications.0.args.embeder`"),
        (lambda d: d["applications"][1]["args"]["stores"].update(sesions_url="x"), "did you mean `sessions_url`?"),
        (lambda d: d["applications"].pop(), "deployments.memory_app:app is missing"),
        (lambda d: d["applications"].append(fused()), "each once, go together"),
        (lambda d: d["applications"].append(d["applications"][2]), "each once, go together"),
        (lambda d: d["applications"][2]["args"]["stores"].update(records_url="sqlite://"), "must have the same"),
    ],
)
def test_a_faulty_serve_file_names_file_key_and_fix(tmp_path: Path, change: Callable[[Any], object], says: str) -> None:
    data = yaml.safe_load(LOCAL.read_text("utf-8"))
    data["applications"] = [
        copy.deepcopy(application) for application in data["applications"]
    ]  # parts the shared block
    change(data)
    path = written(tmp_path, yaml.safe_dump(data), "serve.yaml")
    with pytest.raises(ConfigError) as error:
        read_serve_file(path)
    assert "serve.yaml" in str(error.value)
    assert says in str(error.value)
