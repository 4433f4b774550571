"""YAML as an operator writes it, read strictly: an unknown, repeated or misplaced key is an error that names the file, the line,
the key and the nearest valid one."""

import difflib
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from memory.errors import ConfigError

M = TypeVar("M", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key said twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key `{key}` is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The document; ConfigError naming file and line where it cannot be read."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(str(path), "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read as UTF-8 text ({type(error).__name__})") from None
    return load_yaml(text, str(path))


def load_yaml(text: str, where: str) -> Any:
    """One document; ConfigError naming `where` and the line."""
    with _named(where):
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader


def load_documents(text: str, where: str) -> list[Any]:
    """Every document that is not empty, of a file that kubectl would take: it lets a key pass that is said twice."""
    with _named(where):
        return [document for document in yaml.load_all(text, _Loader) if document is not None]


@contextmanager
def _named(where: str) -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ConfigError(f"{where}:{mark.line + 1}" if mark else where, error.problem or "is not valid YAML") from None


def parse(model: type[M], data: Any, where: str, root: tuple[str, ...] = ()) -> M:
    """`data` as a `model`; ConfigError with the first fault's key, and the nearest valid key for an unknown one."""
    if not isinstance(data, dict):
        raise ConfigError(where, f"{'.'.join(root) or 'the document'} must be a mapping of keys to values")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        path = (*root, *(str(part) for part in fault["loc"]))
        key = ".".join(path)
        if fault["type"] == "extra_forbidden":
            fix = unknown_key(path[-1], _keys_at(model, fault["loc"][:-1]))
            raise ConfigError(where, f"unknown key `{key}`{fix}") from None
        raise ConfigError(where, f"`{key}`: {fault['msg']}") from None


def unknown_key(key: str, valid: Iterable[str]) -> str:
    """The end of an error sentence: which key was probably meant, or which there are."""
    options = sorted(valid)
    near = difflib.get_close_matches(key, options, 1, 0.5)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; valid here: {', '.join(f'`{option}`' for option in options)}" if options else ""


def _keys_at(model: type[BaseModel], loc: Iterable[Any]) -> list[str]:
    """The field names of the model that lies at `loc` inside `model`."""
    current: Any = model
    for part in loc:
        fields = getattr(current, "model_fields", {})
        if part in fields:
            current = _inner_model(fields[part].annotation)
        elif not isinstance(part, int):
            return []
    return list(getattr(current, "model_fields", {}))


def _inner_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None
