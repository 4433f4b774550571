"""The overlays of k8s/ as kubectl renders them, moved into a namespace of a test."""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

K8S = Path(__file__).parents[2] / "k8s"
OVERLAYS = sorted(path.parent for path in K8S.glob("overlays/*/kustomization.yaml"))
_FILES = [path for path in K8S.rglob("*.yaml") if not path.name.endswith(".example.yaml")]
KINDS = {kind for path in _FILES for kind in re.findall(r"^kind: (\w+)", path.read_text(), re.MULTILINE)}
KINDS = KINDS - {"Kustomization", "Component"} | {"ConfigMap", "Secret"}
"""Every kind of object that our files hold, that kustomize makes, and that `strata kubernetes secrets` prints."""


def rendered(overlay: Path, namespace: str) -> list[Manifest]:
    """All objects of an overlay, every one of them in this namespace: kustomize itself moves them, references included."""
    with tempfile.TemporaryDirectory() as folder:
        top = {"namespace": namespace, "resources": [os.path.relpath(overlay, os.path.realpath(folder))]}
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(top))
        done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]
