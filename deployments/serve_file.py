"""A Serve file, read strictly: Ray and KubeRay let unknown keys pass in silence."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ray.serve.schema import ServeDeploySchema

from deployments.references import refuse_passwords
from deployments.serve_schema import refuse_unknown_keys
from deployments.settings import ContextArgs, FusedArgs, InferenceArgs, MemoryArgs, StoreSettings, Topology
from deployments.strict_yaml import parse, read_yaml, unknown_key
from memory.errors import ConfigError
from memory.scaling import Aim

SPLIT: dict[str, type[BaseModel]] = {
    "deployments.inference_app:app": InferenceArgs,
    "deployments.context_app:app": ContextArgs,
    "deployments.memory_app:app": MemoryArgs,
}
FUSED: dict[str, type[BaseModel]] = {"deployments.fused_app:app": FusedArgs}
ARGS = SPLIT | FUSED

QUEUED_TOKENS = "deployments.scaling:QueuedTokens"
AIM = [field.name for field in fields(Aim)]


@dataclass(frozen=True)
class ServeFile:
    """What a file says, whichever topology it declares: of the fused application each part is shown as if it stood alone."""

    topology: Topology
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
    return check_serve_file(read_yaml(path), path)


def check_serve_file(data: Any, path: Path) -> ServeFile:
    """The same of what was read from `path` already."""
    refuse_unknown_keys(data, str(path))
    found: dict[str, Any] = {}
    for number, application in enumerate(data.get("applications") or []):
        at = f"applications.{number}."
        import_path = application.get("import_path", "")
        if import_path not in ARGS:
            raise ConfigError(str(path), f"`{at}import_path`: not one of {', '.join(ARGS)}")
        for index, deployment in enumerate(application.get("deployments") or []):
            _known_aim(deployment, str(path), f"{at}deployments.{index}.")
        root = ("applications", str(number), "args")
        found[import_path] = parse(ARGS[import_path], application.get("args") or {}, str(path), root)
    wanted = FUSED if FUSED.keys() & found.keys() else SPLIT
    missing = [import_path for import_path in wanted if import_path not in found]
    if missing:
        raise ConfigError(str(path), f"`applications`: {missing[0]} is missing")
    if len(found) != len(wanted) or len(found) != len(data["applications"]):
        raise ConfigError(str(path), f"`applications`: only {', '.join(wanted)}, each once, go together")
    try:
        checked = ServeDeploySchema.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(str(path), f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}") from None
    inference, context, memory = _parts(found)
    if context.stores != memory.stores:
        raise ConfigError(str(path), "`applications`: context and memory must have the same `args.stores`")
    refuse_passwords(memory.stores)
    topology: Topology = "fused" if wanted is FUSED else "split"
    return ServeFile(topology, checked.http_options.host, checked.http_options.port, inference, context, memory)


def _known_aim(deployment: Any, where: str, at: str) -> None:
    policy = (deployment.get("autoscaling_config") or {}).get("policy") or {}
    if policy.get("policy_function") == QUEUED_TOKENS:
        for key in policy.get("policy_kwargs") or {}:
            if key not in AIM:
                path = f"{at}autoscaling_config.policy.policy_kwargs.{key}"
                raise ConfigError(where, f"unknown key `{path}`{unknown_key(str(key), AIM)}")


def _parts(found: dict[str, Any]) -> tuple[InferenceArgs, ContextArgs, MemoryArgs]:
    if (fused := found.get("deployments.fused_app:app")) is None:
        inference, context, memory = (found[import_path] for import_path in SPLIT)
        return inference, context, memory
    stores, telemetry = fused.stores, fused.telemetry
    return (
        InferenceArgs(embedder=fused.embedder, telemetry=telemetry),
        ContextArgs(stores=stores, telemetry=telemetry),
        MemoryArgs(stores=stores, curator=fused.curator, telemetry=telemetry),
    )
