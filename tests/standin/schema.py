"""Collections: their configuration with the server's defaults, their tenants, and what a property takes."""

import re
from copy import deepcopy
from datetime import datetime
from typing import Any

from tests.standin.errors import Refused, unknown_property
from tests.standin.shard import Shard

Config = dict[str, Any]

_COLLECTION = re.compile(r"[A-Z][_0-9A-Za-z]*")
_PROPERTY = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,230}")
_TENANT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_TOKENIZATIONS = ("word", "lowercase", "whitespace", "field", "trigram", "gse", "kagome_kr", "kagome_ja", "gse_ch")
_TYPES = ("text", "text[]", "int", "number", "boolean", "date")
_STATUS = {"ACTIVE": "HOT", "INACTIVE": "COLD", "HOT": "HOT", "COLD": "COLD"}

_OFF = {"enabled": False, "rescoreLimit": -1, "cache": False}
_VECTOR_INDEX: dict[str, Config] = {
    "flat": {
        "distance": "cosine",
        "vectorCacheMaxObjects": 1_000_000_000_000,
        "pq": _OFF,
        "bq": _OFF,
        "sq": _OFF,
        "rq": {**_OFF, "bits": 8},
        "skipDefaultQuantization": False,
        "trackDefaultQuantization": False,
    },
    "hnsw": {
        "skip": False,
        "cleanupIntervalSeconds": 300,
        "maxConnections": 32,
        "efConstruction": 128,
        "ef": -1,
        "dynamicEfMin": 100,
        "dynamicEfMax": 500,
        "dynamicEfFactor": 8,
        "vectorCacheMaxObjects": 1_000_000_000_000,
        "flatSearchCutoff": 40_000,
        "distance": "cosine",
        "pq": {
            "enabled": False,
            "bitCompression": False,
            "segments": 0,
            "centroids": 256,
            "trainingLimit": 100_000,
            "encoder": {"type": "kmeans", "distribution": "log-normal"},
        },
        "bq": {"enabled": False},
        "sq": {"enabled": False, "trainingLimit": 100_000, "rescoreLimit": 20},
        "rq": {"enabled": False, "bits": 8, "rescoreLimit": 20},
        "filterStrategy": "acorn",
        "multivector": {
            "enabled": False,
            "muvera": {"enabled": False, "ksim": 4, "dprojections": 16, "repetitions": 10},
            "aggregation": "maxSim",
        },
        "skipDefaultQuantization": False,
        "trackDefaultQuantization": False,
    },
}
_SHARDING = {
    "virtualPerPhysical": 128,
    "desiredCount": 1,
    "actualCount": 1,
    "desiredVirtualCount": 128,
    "actualVirtualCount": 128,
    "key": "_id",
    "strategy": "hash",
    "function": "murmur3",
}


def collection_name(name: str) -> str:
    return name[:1].upper() + name[1:]


def _merged(defaults: Config, given: Config | None) -> Config:
    merged = deepcopy(defaults)
    for name, value in (given or {}).items():
        merged[name] = (
            _merged(merged[name], value) if isinstance(value, dict) and isinstance(merged.get(name), dict) else value
        )
    return merged


def _property(given: Config) -> Config:
    name, (kind, *_) = given["name"], given["dataType"]
    if not _PROPERTY.fullmatch(name):
        raise Refused(
            f"'{name}' is not a valid property name. Property names in Weaviate are restricted to valid GraphQL names, which must "
            "be “/[_A-Za-z][_0-9A-Za-z]{0,230}/”"
        )
    if name in ("id", "vector"):
        raise Refused(f"'{name}' is a reserved property name")
    if kind not in _TYPES:
        raise Refused(f"property '{name}': invalid dataType: [{kind}]: unknown primitive data type '{kind}'")
    textual = kind.startswith("text")
    made: Config = {
        "dataType": [kind],
        "indexFilterable": _or(given.get("indexFilterable"), True),
        "indexRangeFilters": bool(given.get("indexRangeFilters")),
        "indexSearchable": _or(given.get("indexSearchable"), textual),
        "name": name[:1].lower() + name[1:],
    }
    if textual:
        made["tokenization"] = given.get("tokenization") or "word"
    elif given.get("tokenization"):
        raise Refused(f"tokenization is not allowed for data type '{kind}'")
    if given.get("description"):
        made["description"] = given["description"]
    if made["indexSearchable"] and not textual:
        raise Refused(
            "`indexSearchable` is allowed only for text/text[] data types. For other data types set false or leave empty"
        )
    return made


def _or(value: bool | None, default: bool) -> bool:
    return default if value is None else value


def _vector_index(kind: str, given: Config | None, where: str) -> Config:
    if kind == "dynamic":
        raise Refused(f"{where}the dynamic index can only be created when async indexing is enabled")
    if kind not in _VECTOR_INDEX:
        raise Refused(f'{where}unrecognized or unsupported vectorIndexType "{kind}"')
    return _merged(_VECTOR_INDEX[kind], given)


def configuration(given: Config) -> Config:
    """`given` with the server's defaults, or Refused."""
    name = collection_name(given.get("class", ""))
    if not _COLLECTION.fullmatch(name):
        raise Refused(f"'{name}' is not a valid class name")
    if len(name) > 255:
        raise Refused(f"'{name}' is not a valid class name. Name should not be longer than 255 characters")
    tenancy = _merged(
        {"autoTenantActivation": False, "autoTenantCreation": False, "enabled": False}, given.get("multiTenancyConfig")
    )
    inverted = _merged(
        {
            "bm25": {"b": 0.75, "k1": 1.2},
            "cleanupIntervalSeconds": 60,
            "stopwords": {"additions": None, "preset": "en", "removals": None},
            "usingBlockMaxWAND": True,
        },
        given.get("invertedIndexConfig"),
    )
    if inverted["stopwords"]["preset"] not in ("en", "none"):
        raise Refused(f"stopwordPreset '{inverted['stopwords']['preset']}' does not exist")
    replication = _merged(
        {"deletionStrategy": "TimeBasedResolution", "factor": 1, "asyncEnabled": False}, given.get("replicationConfig")
    )
    if replication["factor"] > 1:
        raise Refused(
            "init sharding state: could not find enough weaviate nodes for replication: 1 available, "
            f"{replication['factor']} requested"
        )
    config: Config = {
        "class": name,
        "invertedIndexConfig": inverted,
        "multiTenancyConfig": tenancy,
        "properties": [],
        "shardingConfig": {k: type(v)() for k, v in _SHARDING.items()} if tenancy["enabled"] else dict(_SHARDING),
        "replicationConfig": replication,
    }
    for each in given.get("properties") or []:
        add_property(config, each)
    if given.get("vectorConfig"):
        config["vectorConfig"] = {
            target: {
                "vectorIndexConfig": _vector_index(
                    about.get("vectorIndexType") or "hnsw",
                    about.get("vectorIndexConfig"),
                    f'target vector "{target}": ',
                ),
                "vectorIndexType": about.get("vectorIndexType") or "hnsw",
                "vectorizer": about.get("vectorizer") or {"none": {}},
            }
            for target, about in given["vectorConfig"].items()
        }
    else:
        kind = given.get("vectorIndexType") or "hnsw"
        config["vectorIndexConfig"] = _vector_index(kind, given.get("vectorIndexConfig"), "")
        config["vectorIndexType"], config["vectorizer"] = kind, "none"
    if given.get("description"):
        config["description"] = given["description"]
    return config


def add_property(config: Config, given: Config) -> Config:
    made = _property(given)
    if any(each["name"].lower() == made["name"].lower() for each in config["properties"]):
        raise Refused(
            f'class "{config["class"]}": conflict for property "{made["name"]}": already in use or provided multiple times'
        )
    config["properties"].append(made)
    return made


class Collection:
    """A collection with its tenants' shards; one shard "" where it has no tenants."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.shards: dict[str, Shard] = {} if self.tenancy["enabled"] else {"": Shard(self, "")}
        self.asleep: set[str] = set()

    @property
    def name(self) -> str:
        return str(self.config["class"])

    @property
    def tenancy(self) -> Config:
        tenancy: Config = self.config["multiTenancyConfig"]
        return tenancy

    def shard(self, tenant: str) -> Shard:
        """The tenant's, woken up where that is allowed."""
        if tenant and not self.tenancy["enabled"]:
            raise Refused(f"class {self.name} has multi-tenancy disabled, but request was with tenant")
        if not tenant and self.tenancy["enabled"]:
            raise Refused(f"class {self.name} has multi-tenancy enabled, but request was without tenant")
        if tenant not in self.shards:
            if not self.tenancy["autoTenantCreation"]:
                raise Refused(f'tenant not found: "{tenant}"')
            self.shards[tenant] = Shard(self, tenant)
        if tenant in self.asleep:
            if not self.tenancy["autoTenantActivation"]:
                raise Refused(f"tenant not active: '{tenant}'")
            self.asleep.discard(tenant)
        return self.shards[tenant]

    def about(self, name: str) -> Config:
        for each in self.config["properties"]:
            if each["name"] == name[:1].lower() + name[1:]:
                found: Config = each
                return found
        raise unknown_property(name, self.name)

    def vector_index(self, target: str) -> str:
        if target:
            return str(self.config["vectorConfig"][target]["vectorIndexType"])
        return str(self.config["vectorIndexType"])

    @property
    def targets(self) -> list[str]:
        return list(self.config["vectorConfig"]) if "vectorConfig" in self.config else [""]

    def checked(self, properties: dict[str, Any]) -> dict[str, Any]:
        """The values of an object as they are stored."""
        checked = {}
        for name, value in properties.items():
            about = self.about(name)
            if value is not None:
                checked[about["name"]] = self._value(about, value)
        return checked

    def _value(self, about: Config, value: Any) -> Any:
        kind, where = about["dataType"][0], f"property '{about['name']}' on class '{self.name}'"
        given = str(value).lower() if isinstance(value, bool) else value
        if kind == "text":
            if not isinstance(value, str):
                raise Refused(f"invalid text {where}: not a string, but {_go_type(value)}")
        elif kind == "text[]":
            if not isinstance(value, list):
                raise Refused(f"invalid text array {where}: not a text array, but {_go_type(value)}")
        elif kind == "int":
            if isinstance(value, bool | str) or int(value) != value:
                raise Refused(f"invalid integer {where}: requires an integer, the given value is '{given}'")
            return int(value)
        elif kind == "number":
            if isinstance(value, bool | str):
                raise Refused(f"invalid number {where}: requires a float, the given value is '{given}'")
        elif kind == "boolean":
            if not isinstance(value, bool):
                raise Refused(f"invalid boolean {where}: not a bool, but {_go_type(value)}")
        elif not isinstance(value, str) or not _RFC3339.fullmatch(value):
            raise Refused(
                f"invalid date {where}: requires a string with a RFC3339 formatted date, but the given value is '{value}'"
            )
        else:
            datetime.fromisoformat(value.upper().replace("Z", "+00:00"))
        return value

    # --- tenants ------------------------------------------------------------------------------------------------------

    def _with_tenants(self, action: str) -> None:
        if not self.tenancy["enabled"]:
            raise Refused(f'{action}multi-tenancy is not enabled for class "{self.name}"')

    def tenants(self) -> list[Config]:
        self._with_tenants("failed to execute query: could not get tenants: could not get tenants: ")
        return [
            {"activityStatus": "COLD" if name in self.asleep else "HOT", "name": name} for name in sorted(self.shards)
        ]

    def add_tenants(self, given: list[Config]) -> list[Config]:
        """One that exists already stays as it is."""
        self._with_tenants("updating schema: TYPE_ADD_TENANT: ")
        for number, each in enumerate(given):
            if not _TENANT.fullmatch(each["name"]):
                raise Refused(
                    f"tenant name at index {number}:  '{each['name']}' is not a valid tenant name. should only contain alphanumeric "
                    "characters (a-z, A-Z, 0-9), underscore (_), and hyphen (-), with a length between 1 and 64 characters"
                )
        for each in given:
            if each["name"] not in self.shards:
                self.shards[each["name"]] = Shard(self, each["name"])
                if _STATUS[each.get("activityStatus", "ACTIVE")] == "COLD":
                    self.asleep.add(each["name"])
        return [
            {
                **({"activityStatus": _STATUS[each["activityStatus"]]} if "activityStatus" in each else {}),
                "name": each["name"],
            }
            for each in given
        ]

    def update_tenants(self, given: list[Config]) -> list[Config]:
        self._with_tenants("updating schema: TYPE_UPDATE_TENANT: ")
        for each in given:
            if each["activityStatus"] in ("OFFLOADED", "FROZEN"):
                raise Refused("can't offload tenants, because offload-s3 module is not enabled")
            if each["name"] not in self.shards:
                raise Refused(f"updating schema: TYPE_UPDATE_TENANT: shard not found: {each['name']}")
        for each in given:
            change = self.asleep.add if _STATUS[each["activityStatus"]] == "COLD" else self.asleep.discard
            change(each["name"])
        return [{"activityStatus": _STATUS[each["activityStatus"]], "name": each["name"]} for each in given]

    def remove_tenants(self, names: list[str]) -> None:
        self._with_tenants("updating schema: TYPE_DELETE_TENANT: ")
        for name in names:
            self.shards.pop(name, None)
            self.asleep.discard(name)


def _go_type(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "[]interface {}" if isinstance(value, list) else "float64"


class Database:
    """All collections. With `auto_schema` a write makes what it does not find, as the server does unless told otherwise."""

    def __init__(self, auto_schema: bool = False) -> None:
        self.auto_schema = auto_schema
        self.collections: dict[str, Collection] = {}

    def get(self, name: str) -> Collection | None:
        return self.collections.get(collection_name(name))

    def create(self, given: Config) -> Config:
        config = configuration(given)
        if config["class"] in self.collections:
            raise Refused(f"class name {config['class']} already exists")
        self.collections[config["class"]] = Collection(config)
        return config

    def for_write(self, name: str, properties: dict[str, Any]) -> Collection | None:
        """With `auto_schema`: the collection is made without tenants, a property that is missing is added without a word."""
        if self.auto_schema:
            if self.get(name) is None:
                self.create({"class": name, "vectorConfig": {"default": {}}})
            config = self.collections[collection_name(name)].config
            known = {each["name"] for each in config["properties"]}
            for each, value in properties.items():
                if each not in known:
                    add_property(config, {"name": each, "dataType": ["text" if isinstance(value, str) else "number"]})
        return self.get(name)
