"""A Serve file, read strictly: Ray and KubeRay let unknown keys pass in silence."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ray.serve.schema import DeploymentSchema, HTTPOptionsSchema, ServeApplicationSchema, ServeDeploySchema

from deployments.references import refuse_passwords
from deployments.settings import ContextArgs, InferenceArgs, MemoryArgs, StoreSettings
from deployments.strict_yaml import parse, read_yaml, unknown_key
from memory.errors import ConfigError

ARGS: dict[str, type[BaseModel]] = {
    "deployments.inference_app:app": InferenceArgs,
    "deployments.context_app:app": ContextArgs,
    "deployments.memory_app:app": MemoryArgs,
}


@dataclass(frozen=True)
class ServeFile:
    host: str
    port: int
    inference: InferenceArgs
    context: ContextArgs
    memory: MemoryArgs

    @property
    def stores(self) -> StoreSettings:
        return self.memory.stores


def read_serve_file(path: Path) -> ServeFile:
    """ConfigError names file, key and the nearest valid key. Relative paths inside are from the project's root."""
    data = read_yaml(path)
    _known_keys(ServeDeploySchema, data, path, "")
    _known_keys(HTTPOptionsSchema, data.get("http_options", {}), path, "http_options.")
    found: dict[str, Any] = {}
    for number, application in enumerate(data.get("applications", [])):
        at = f"applications.{number}."
        _known_keys(ServeApplicationSchema, application, path, at)
        for index, deployment in enumerate(application.get("deployments", [])):
            _known_keys(DeploymentSchema, deployment, path, f"{at}deployments.{index}.")
        import_path = application.get("import_path", "")
        if import_path not in ARGS:
            raise ConfigError(str(path), f"`{at}import_path`: not one of {', '.join(ARGS)}")
        root = ("applications", str(number), "args")
        found[import_path] = parse(ARGS[import_path], application.get("args") or {}, str(path), root)
    missing = [import_path for import_path in ARGS if import_path not in found]
    if missing:
        raise ConfigError(str(path), f"`applications`: {missing[0]} is missing")
    try:
        checked = ServeDeploySchema.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(str(path), f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}") from None
    inference, context, memory = (found[import_path] for import_path in ARGS)
    if context.stores != memory.stores:
        raise ConfigError(str(path), "`applications`: context and memory must have the same `args.stores`")
    refuse_passwords(memory.stores)
    return ServeFile(checked.http_options.host, checked.http_options.port, inference, context, memory)


def _known_keys(schema: type[BaseModel], data: Any, path: Path, at: str) -> None:
    if not isinstance(data, dict):
        raise ConfigError(str(path), f"`{at.rstrip('.') or 'the document'}` must be a mapping of keys to values")
    for key in data:
        if key not in schema.model_fields:
            raise ConfigError(str(path), f"unknown key `{at}{key}`{unknown_key(str(key), schema.model_fields)}")
