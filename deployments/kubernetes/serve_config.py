"""The Serve configuration of an overlay: configs/production.yaml, then what differs in every cluster, then what differs in this one."""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from deployments.serve_file import check_serve_file
from deployments.strict_yaml import read_yaml
from memory.errors import ConfigError


def merged(base: Any, over: Any, at: str = "") -> Any:
    """`over` laid on `base`; neither is changed. Mappings are merged key by key and null takes a key away. Lists whose items all
    have a `name` (applications, deployments) are merged by it, a new name is added at the end; any other value replaces."""
    if isinstance(base, dict) and isinstance(over, dict):
        result = {key: value for key, value in base.items() if over.get(key, value) is not None or key not in over}
        for key, value in over.items():
            if value is not None:
                result[key] = merged(base.get(key), value, f"{at}{key}.")
        return copy.deepcopy(result)
    if _named(base) and _named(over):
        names = [item["name"] for item in over]
        if len(set(names)) != len(names):
            raise ConfigError(at.rstrip("."), "names one item twice")
        changes = {item["name"]: item for item in over}
        known = [merged(item, changes.pop(item["name"], {}), f"{at}{item['name']}.") for item in base]
        return known + [merged({}, item) for item in changes.values()]
    if isinstance(over, dict):
        return merged({}, over, at)
    return copy.deepcopy(over)


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "name" in item for item in value)


def overlay_config(layers: Iterable[Path]) -> dict[str, Any]:
    """The layers merged in their order, and checked: ConfigError names the last layer, the key and the fix."""
    config: Any = {}
    for layer in layers:
        change = read_yaml(layer)
        if not isinstance(change, dict):
            raise ConfigError(str(layer), "must be a mapping of keys to values")
        config = merged(config, change)
    check_config(config, layer)
    result: dict[str, Any] = config
    return result


def check_config(config: Any, where: Path) -> None:
    """ConfigError for what Ray takes in silence or refuses, and for what would be another service than the one in the code."""
    check_serve_file(config, where)
    for application in config["applications"]:
        route = application.get("route_prefix")
        if route is not None and not route.startswith("/"):
            raise ConfigError(str(where), f"`{application['name']}.route_prefix` is {route}: it begins with a slash")
        for deployment in application.get("deployments", []):
            _consistent(deployment, f"{application['name']}.{deployment['name']}", where)


def _consistent(deployment: dict[str, Any], name: str, layer: Path) -> None:
    if "num_cpus" not in deployment.get("ray_actor_options", {"num_cpus": 0}):
        raise ConfigError(
            str(layer),
            f"`{name}.ray_actor_options`: say num_cpus too; these options take the place of all those in the code, "
            "and Ray would reckon a whole CPU",
        )


class _Plain(yaml.SafeDumper):
    """No anchors: what two applications share is written twice, so that a reader sees each whole."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(data: Any, header: str = "") -> str:
    """Always the same text for the same data."""
    body = yaml.dump(data, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False)
    return header + body
