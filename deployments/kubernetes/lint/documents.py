"""What the rules look at: rendered objects, and the pod templates in them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: in which object, where in it, and what to do."""

    object: str
    path: str
    says: str

    def __str__(self) -> str:
        return f"{self.object}: {self.path}: {self.says}"


@dataclass(frozen=True)
class PodTemplate:
    """A pod template of any kind of object. `ray` is the group's name, `head` for the head, None for other pods."""

    owner: str
    path: str
    template: Document
    ray: str | None = None
    settings: Document = field(default_factory=dict)
    """The group that it is of, where it is one of Ray's."""

    @property
    def spec(self) -> Document:
        spec: Document = self.template.get("spec") or {}
        return spec

    @property
    def labels(self) -> dict[str, str]:
        """As the pods will have them: the operator adds Ray's."""
        own: dict[str, str] = dict((self.template.get("metadata") or {}).get("labels") or {})
        if self.ray is not None:
            own |= {"ray.io/is-ray-node": "yes", "ray.io/node-type": "head" if self.ray == "head" else "worker"}
            own |= {"ray.io/group": "headgroup" if self.ray == "head" else self.ray}
        return own

    def containers(self) -> Iterator[tuple[str, Document]]:
        """(path, container), those that run first as well."""
        for kind in ("initContainers", "containers"):
            for number, container in enumerate(self.spec.get(kind) or ()):
                yield f"{self.path}.spec.{kind}[{number}]", container

    def ray_container(self) -> tuple[str, Document]:
        """The operator takes the first container for Ray's."""
        containers = self.spec.get("containers") or [{}]
        return f"{self.path}.spec.containers[0]", containers[0]


def name_of(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def of_kind(documents: list[Document], *kinds: str) -> Iterator[Document]:
    return (document for document in documents if document["kind"] in kinds)


def ray_services(documents: list[Document]) -> Iterator[tuple[str, Document, Document]]:
    """(name, spec, spec.rayClusterConfig)"""
    for document in of_kind(documents, "RayService"):
        spec = document.get("spec") or {}
        yield name_of(document), spec, spec.get("rayClusterConfig") or {}


def pod_templates(documents: list[Document]) -> Iterator[PodTemplate]:
    for name, _, cluster in ray_services(documents):
        head = cluster.get("headGroupSpec") or {}
        yield PodTemplate(
            name, "spec.rayClusterConfig.headGroupSpec.template", head.get("template") or {}, "head", head
        )
        for number, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            path = f"spec.rayClusterConfig.workerGroupSpecs[{number}].template"
            yield PodTemplate(name, path, group.get("template") or {}, str(group.get("groupName")), group)
    for document in of_kind(documents, "Deployment", "StatefulSet", "DaemonSet", "Job"):
        yield PodTemplate(name_of(document), "spec.template", (document.get("spec") or {}).get("template") or {})
    for document in of_kind(documents, "CronJob"):
        job = ((document.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
        yield PodTemplate(name_of(document), "spec.jobTemplate.spec.template", job.get("template") or {})


def selects(selector: Document | None, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector takes something with these labels. An empty one takes everything, none takes nothing."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in exact.items()):
        return False
    return all(_matches(expression, labels) for expression in selector.get("matchExpressions") or ())


def _matches(expression: Document, labels: dict[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
