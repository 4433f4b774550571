"""What the offline tests share: the overlays as our own renderer makes them, and schemas as strict as an API server's."""

import copy
import functools
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from deployments.kubernetes.kustomize import Document, render

ROOT = Path(__file__).resolve().parents[2]
OVERLAYS = sorted(path.parent.name for path in (ROOT / "k8s" / "overlays").glob("*/kustomization.yaml"))
CRD = ROOT.parent / "shared" / "data" / "kuberay" / "ray.io_rayservices.yaml"


@functools.cache
def _rendered(overlay: str) -> list[Document]:
    return render(ROOT / "k8s" / "overlays" / overlay)


def objects(overlay: str) -> list[Document]:
    """Every object of an overlay; the caller may change them."""
    return copy.deepcopy(_rendered(overlay))


def the(documents: list[Document], kind: str, name: str | None = None) -> Document:
    [found] = [
        document for document in documents if document["kind"] == kind and name in (None, document["metadata"]["name"])
    ]
    return found


@functools.cache
def rayservice_validator() -> jsonschema.Draft202012Validator:
    """KubeRay's schema of ray.io/v1 RayService, in which what is not named is refused, as an API server does when it is asked to."""
    crd = yaml.load(CRD.read_text("utf-8"), yaml.CSafeLoader)
    [schema] = [version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"] if version["name"] == "v1"]
    return jsonschema.Draft202012Validator(strict(schema))


def strict(schema: Any) -> Any:
    """An OpenAPI structural schema as a JSON schema that refuses what it does not name."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        key: {name: strict(inner) for name, inner in value.items()} if key == "properties" else strict(value)
        for key, value in schema.items()
        if not key.startswith("x-") and key not in ("format", "description")
    }
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("anyOf", None)
        made["type"] = ["integer", "string"]
        if "pattern" not in made:
            made.pop("type")
            made["type"] = ["integer", "string"]
    named = "properties" in made and not schema.get("x-kubernetes-preserve-unknown-fields")
    if named and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made
