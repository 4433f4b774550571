"""The part of kustomize that k8s/ uses, so that what is applied can be rendered, checked and tested where no kubectl is.

Known: resources (files and folders), namespace, labels (without selectors), images, configMapGenerator (files and envs, no hash),
patches (a merge patch by path, JSON 6902 by target), replacements (one field of one object). Anything else is an error: better
none than another result than kubectl's. A test holds both equal wherever kubectl is.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deployments.strict_yaml import load_documents, load_yaml, read_yaml
from memory.errors import ConfigError

Document = dict[str, Any]

_KNOWN = {
    "apiVersion",
    "kind",
    "namespace",
    "resources",
    "labels",
    "images",
    "configMapGenerator",
    "patches",
    "replacements",
}
_CLUSTER_WIDE = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "PriorityClass"}


def render(folder: Path, instead: Mapping[Path, str] | None = None) -> list[Document]:
    """Every object of the kustomization in `folder`. ConfigError where it asks for what is not known here.

    `instead` holds the texts of files (by resolved path) that are not what is on the disk, or not there yet.
    """
    files = _Files(instead or {})
    return _rendered(folder, files)


def read_documents(path: Path) -> list[Document]:
    """The objects of a file, none sharing a part with another. ConfigError where one has no kind or no name."""
    return _documents(path, _Files({}))


class _Files:
    def __init__(self, instead: Mapping[Path, str]) -> None:
        self._instead = instead

    def text(self, path: Path) -> str:
        given = self._instead.get(path.resolve())
        if given is not None:
            return given
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(str(path), f"cannot be read ({type(error).__name__})") from None


def _rendered(folder: Path, files: _Files) -> list[Document]:
    path = folder / "kustomization.yaml"
    kustomization = read_yaml(path)
    if unknown := set(kustomization) - _KNOWN:
        raise ConfigError(str(path), f"`{min(unknown)}` is not rendered here; see deployments/kubernetes/kustomize.py")
    documents: list[Document] = []
    for resource in kustomization.get("resources", []):
        where = folder / resource
        documents += _rendered(where, files) if where.is_dir() else _documents(where, files)
    documents += [_config_map(entry, folder, files) for entry in kustomization.get("configMapGenerator", [])]
    for patch in kustomization.get("patches", []):
        _patch(documents, patch, folder, files)
    for document in documents:
        for label in kustomization.get("labels", []):
            document["metadata"].setdefault("labels", {}).update(label["pairs"])
        for image in kustomization.get("images", []):
            _rename(document, image)
        if "namespace" in kustomization and document["kind"] not in _CLUSTER_WIDE:
            document["metadata"]["namespace"] = kustomization["namespace"]
    for replacement in kustomization.get("replacements", []):
        _replace(documents, replacement, path)
    return documents


def parse_documents(text: str, where: str) -> list[Document]:
    """The objects in `text`, none sharing a part with another; the items of a List one by one. ConfigError where one has no kind or
    no name, where a key is said twice (kubectl takes the last), or where a word stands that only some readers take for a boolean."""
    documents: list[Document] = []
    for event in yaml.parse(text) if load_documents(text, where) else ():
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value in {"y", "Y", "n", "N"}:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise ConfigError(f"{where}:{line}", f"`{event.value}` is a boolean to kubectl: put it in quotes")
    for found in load_documents(text, where):
        many = found.get("items") if isinstance(found, dict) and found.get("kind") == "List" else [found]
        for document in many or ():
            named = isinstance(document, dict) and (document.get("metadata") or {}).get("name")
            if not named or not document.get("kind"):
                raise ConfigError(where, "each document must be an object with kind and metadata.name")
            documents.append(json.loads(json.dumps(document, default=str)))
    return documents


def _documents(path: Path, files: _Files) -> list[Document]:
    return parse_documents(files.text(path), str(path))


def _config_map(entry: Document, folder: Path, files: _Files) -> Document:
    if not entry.get("options", {}).get("disableNameSuffixHash"):
        raise ConfigError(f"{folder}: configMapGenerator {entry['name']}", "needs options.disableNameSuffixHash here")
    data: dict[str, str] = {}
    for file in entry.get("files", []):
        key, _, source = file.rpartition("=")
        data[key or Path(source).name] = files.text(folder / source)
    for file in entry.get("envs", []):
        for line in files.text(folder / file).splitlines():
            if line.strip() and not line.startswith("#"):
                name, _, value = line.partition("=")
                data[name] = value
    return {"apiVersion": "v1", "data": data, "kind": "ConfigMap", "metadata": {"name": entry["name"]}}


def _patch(documents: list[Document], patch: Document, folder: Path, files: _Files) -> None:
    if "path" in patch:
        for change in _documents(folder / patch["path"], files):
            [target] = _selected(documents, {"kind": change["kind"], "name": change["metadata"]["name"]})
            _merge(target, change)
        return
    operations = load_yaml(patch["patch"], str(folder))
    for target in _selected(documents, patch["target"]):
        for operation in operations:
            _operate(target, copy.deepcopy(operation))


def _selected(documents: list[Document], target: Document) -> list[Document]:
    found = [
        document
        for document in documents
        if document["kind"] == target["kind"] and target.get("name") in (None, document["metadata"]["name"])
    ]
    if not found:
        raise ConfigError(f"{target['kind']} {target.get('name', '')}", "is patched, but is not there")
    return found


def _merge(target: Document, change: Document) -> None:
    """RFC 7386: mappings merge, null removes, anything else replaces. So kustomize treats kinds that it does not know, as KubeRay's."""
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _operate(document: Document, operation: Document) -> None:
    """One operation of RFC 6902: add, replace, remove, test."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    here: Any = document
    try:
        for part in parents:
            here = here[int(part)] if isinstance(here, list) else here[part]
        key: Any = last if isinstance(here, dict) else len(here) if last == "-" else int(last)
        if operation["op"] == "add" and isinstance(here, list):
            here.insert(key, operation["value"])
        elif operation["op"] == "add":
            here[key] = operation["value"]
        elif operation["op"] == "remove":
            del here[key]
        elif operation["op"] == "replace":
            here[key]  # it must be there
            here[key] = operation["value"]
        elif operation["op"] == "test":
            if here[key] != operation["value"]:
                raise ConfigError(
                    operation["path"], f"is {here[key]!r}, and the patch is written for {operation['value']!r}"
                )
        else:
            raise ConfigError(operation["path"], f"`{operation['op']}` is not rendered here")
    except (KeyError, IndexError, TypeError, ValueError):
        raise ConfigError(operation["path"], "is patched, but is not there") from None


def _rename(document: Document, image: Document) -> None:
    for container in _containers(document):
        name, _, _ = str(container.get("image", "")).partition(":")
        if name == image["name"]:
            container["image"] = f"{image.get('newName', name)}:{image['newTag']}"


def _containers(value: Any) -> Iterator[Document]:
    """Each container in each pod template, wherever that is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("containers", "initContainers") and isinstance(inner, list):
                yield from inner
            else:
                yield from _containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _containers(inner)


def _replace(documents: list[Document], replacement: Document, path: Path) -> None:
    source = replacement["source"]
    [origin] = _selected(documents, source)
    value: Any = origin
    for part in _fields(source["fieldPath"]):
        value = value[part]
    for target in replacement["targets"]:
        if set(target) - {"select", "fieldPaths", "options"} or target.get("options") != {"create": True}:
            raise ConfigError(str(path), "replacements: only select, fieldPaths and options.create are rendered here")
        for document in _selected(documents, target["select"]):
            for field in target["fieldPaths"]:
                *parents, last = _fields(field)
                here = document
                for part in parents:
                    here = here.setdefault(part, {})
                here[last] = value


def _fields(path: str) -> list[str]:
    """`data.[serve.yaml]` is two fields: a name in brackets may hold dots."""
    head, bracket, rest = path.partition("[")
    fields = [part for part in head.split(".") if part]
    if bracket:
        inner, _, tail = rest.partition("]")
        fields += [inner, *_fields(tail)]
    return fields
