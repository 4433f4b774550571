"""Every key of a Serve configuration is known. Ray 2.60 takes unknown ones in silence, at any depth, and KubeRay passes them on."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from ray.runtime_env import RuntimeEnv
from ray.runtime_env.runtime_env import RuntimeEnvConfig
from ray.serve.config import AutoscalingPolicy
from ray.serve.schema import ServeDeploySchema

from deployments.strict_yaml import unknown_key
from memory.errors import ConfigError

FREE = frozenset(
    {
        "args",  # typed by the application: deployments/settings.py
        "user_config",
        "resources",
        "label_selector",
        "env_vars",
        "request_router_kwargs",
        "policy_kwargs",
        "init_kwargs",
        "actor_options",
    }
)
"""Mappings whose keys are the writer's own, or are read by somebody who is strict about them."""

_MODELS: dict[str, type[BaseModel]] = {"autoscaling_policy": AutoscalingPolicy}
_RUNTIME_ENV = frozenset(key for key in RuntimeEnv.known_fields if not key.startswith("_"))


def refuse_unknown_keys(data: Any, where: str) -> None:
    """ConfigError names the first key of a Serve configuration that nobody reads, its path and the nearest valid one."""
    for path, key, valid in _unknown(ServeDeploySchema, data, ""):
        raise ConfigError(where, f"unknown key `{path}{key}`{unknown_key(str(key), valid)}")
    if not isinstance(data, dict):
        raise ConfigError(where, "the document must be a mapping of keys to values")


def _unknown(model: type[BaseModel], data: Any, at: str) -> Iterator[tuple[str, Any, list[str]]]:
    """(path, key, valid keys) of each unknown key. What is no mapping is left to the schema's own check of types."""
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        field = model.model_fields.get(key)
        if field is None:
            yield at, key, list(model.model_fields)
        elif key == "runtime_env":
            yield from _outside(_RUNTIME_ENV, value, f"{at}{key}.")
            if isinstance(value, dict):
                yield from _outside(frozenset(RuntimeEnvConfig.known_fields), value.get("config"), f"{at}{key}.config.")
        elif key not in FREE:
            inner = _MODELS.get(key) or _model_in(field.annotation)
            if inner is not None:
                for part, item in _items(value):
                    yield from _unknown(inner, item, f"{at}{key}.{part}")


def _outside(known: frozenset[str], data: Any, at: str) -> Iterator[tuple[str, Any, list[str]]]:
    if isinstance(data, dict):
        yield from ((at, key, sorted(known)) for key in data if key not in known)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{number}.", item) for number, item in enumerate(value))
    else:
        yield "", value


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
