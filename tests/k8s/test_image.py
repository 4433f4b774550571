"""The Dockerfile, as far as it can be looked at without building it."""

import re

import pytest

from deployments.kubernetes.lint.documents import pod_templates
from tests.k8s.offline import OVERLAYS, ROOT, objects

TEXT = (ROOT / "Dockerfile").read_text("utf-8")
LINES = re.sub(r"\\\n\s*", " ", TEXT).splitlines()


def _stages() -> dict[str, tuple[str, list[str]]]:
    """Name -> (what it is from, its instructions)."""
    stages: dict[str, tuple[str, list[str]]] = {}
    for line in LINES:
        if match := re.match(r"FROM (\S+) AS (\S+)", line):
            parent, name = match.groups()
            stages[name] = (parent, [])
        elif stages and line and not line.startswith("#"):
            stages[name][1].append(line)
    return stages


def _inherited(name: str) -> list[str]:
    stages = _stages()
    instructions: list[str] = []
    while name in stages:
        parent, own = stages[name]
        instructions = own + instructions
        name = parent
    return instructions


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_runs(target: str) -> None:
    instructions = _inherited(target)
    installed = next(line for line in instructions if "apt-get install" in line)
    for tool in ("bash", "wget", "grep"):
        assert f" {tool} " in installed, f"KubeRay's probes and commands call {tool}"
    assert instructions[-2].startswith("USER 10001"), "not root, and by number: the kubelet checks runAsNonRoot by it"
    assert "HEALTHCHECK NONE" in instructions
    assert any(line.startswith("COPY --from=model ") for line in instructions), "pods start without a network"
    assert "PATH=/opt/venv/bin:" in " ".join(instructions)


def test_both_images_hold_the_same_model_and_pins() -> None:
    """An index belongs to one model: were it prepared twice, one image might refuse the other's index (P18)."""
    stages = _stages()
    assert stages["model"][0] == "build-cpu"
    assert not any("prepare(" in line for name, (_, own) in stages.items() for line in own if name != "model")
    for build in ("build-cpu", "build-cuda"):
        install = next(line for line in stages[build][1] if "-r pyproject.toml" in line)
        assert "-c constraints.txt" in install
        for extra in ("mysql", "postgres", "weaviate"):
            assert f"--extra {extra}" in install
    cpu, cuda = stages["build-cpu"][1], stages["build-cuda"][1]
    assert [line for line in cpu if "torch" not in line] == [line for line in cuda if "-r pyproject.toml" not in line]


def test_the_smaller_image_is_what_a_plain_build_makes() -> None:
    assert list(_stages())[-1] == "cpu"


def test_what_is_copied_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    for line in LINES:
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _ = line.split()[1:]
            for source in sources:
                assert f"!{source}" in ignored, source
                assert (ROOT / source).exists(), source


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_run_as_the_image_s_user_with_a_home_that_they_can_write(overlay: str) -> None:
    home = re.search(r"--home-dir (\S+)", TEXT)
    assert home
    assert f"STRATA_HOME={home[1]}" in TEXT
    for template in pod_templates(objects(overlay)):
        for path, container in template.containers():
            if str(container["image"]).startswith("strata-"):
                assert template.spec["securityContext"]["runAsUser"] == 10001, path
                mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
                assert "/tmp" in mounts, path
                assert home[1] in mounts or container["name"] == "metrics", path
