"""The REST side: schema, tenants, single objects, health."""

import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.standin.errors import Refused
from tests.standin.schema import Collection, Database, add_property, collection_name
from tests.standin.shard import Shard, Stored

VERSION = "1.40.0-standin"
NODE = "standin"
_STATUSES = (
    "ACTIVE",
    "INACTIVE",
    "OFFLOADED",
    "OFFLOADING",
    "ONLOADING",
    "HOT",
    "COLD",
    "FROZEN",
    "FREEZING",
    "UNFREEZING",
)

Handler = Callable[[Request], Awaitable[Response]]


def _said(text: str, status: int = 422, **more: Any) -> Response:
    return JSONResponse({**more, "error": [{"message": text}]}, status)


def _answering(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return _said(refused.text, refused.status)

    return answer


def shown(collection: Collection, stored: Stored, tenant: str, vectors: bool) -> dict[str, Any]:
    about: dict[str, Any] = {
        "class": collection.name,
        "creationTimeUnix": stored.created,
        "id": stored.id,
        "lastUpdateTimeUnix": stored.updated,
        "properties": stored.properties,
    }
    if tenant:
        about["tenant"] = tenant
    if vectors:
        listed = {name: vector.tolist() for name, vector in stored.vectors.items()}
        if "" in listed:
            about["vector"] = listed.pop("")
        if listed:
            about["vectors"] = listed
    return about


class Rest:
    def __init__(self, database: Database) -> None:
        self._database = database
        by_path: dict[str, dict[str, Handler]] = {
            "/v1/meta": {"GET": self.meta},
            "/v1/.well-known/{probe}": {"GET": self.well_known},
            "/v1/schema": {"GET": self.collections, "POST": self.create},
            "/v1/schema/{name}": {"GET": self.collection, "PUT": self.update, "DELETE": self.drop},
            "/v1/schema/{name}/properties": {"POST": self.property},
            "/v1/schema/{name}/shards": {"GET": self.shards},
            "/v1/schema/{name}/tenants": {
                "GET": self.tenants,
                "POST": self.add_tenants,
                "PUT": self.update_tenants,
                "DELETE": self.remove_tenants,
            },
            "/v1/schema/{name}/tenants/{tenant}": {"GET": self.tenant},
            "/v1/objects": {"GET": self.objects, "POST": self.insert},
            "/v1/objects/{name}/{id}": {
                "GET": self.object,
                "PUT": self.replace,
                "PATCH": self.merge,
                "DELETE": self.delete,
            },
            "/v1/nodes": {"GET": self.nodes},
            "/v1/nodes/{name}": {"GET": self.nodes},
            "/v1/cluster/statistics": {"GET": self.statistics},
        }
        self.app = Starlette(
            routes=[
                Route(path, _answering(handler), methods=[method])
                for path, handlers in by_path.items()
                for method, handler in handlers.items()
            ]
        )

    async def meta(self, request: Request) -> Response:
        return JSONResponse(
            {"grpcMaxMessageSize": 104_858_000, "hostname": "http://standin", "modules": {}, "version": VERSION}
        )

    async def well_known(self, request: Request) -> Response:
        return Response(status_code=200 if request.path_params["probe"] in ("live", "ready") else 404)

    # --- schema -------------------------------------------------------------------------------------------------------

    async def collections(self, request: Request) -> Response:
        return JSONResponse({"classes": [each.config for each in self._database.collections.values()]})

    async def create(self, request: Request) -> Response:
        given = await request.json()
        for number, each in enumerate(given.get("properties") or []):
            tokenizations = (
                "word",
                "lowercase",
                "whitespace",
                "field",
                "trigram",
                "gse",
                "kagome_kr",
                "kagome_ja",
                "gse_ch",
            )
            if each.get("tokenization") not in (None, *tokenizations):
                text = f"properties.{number}.tokenization in body should be one of [{' '.join(tokenizations)}]"
                return JSONResponse({"code": 606, "message": text}, 422)
        try:
            return JSONResponse(self._database.create(given))
        except Refused as refused:
            return _said(refused.text, allowed=None)

    async def collection(self, request: Request) -> Response:
        found = self._database.get(request.path_params["name"])
        return Response(status_code=404) if found is None else JSONResponse(found.config)

    async def update(self, request: Request) -> Response:
        found, given = self._database.get(request.path_params["name"]), await request.json()
        if found is None:
            return Response(status_code=404)
        changed = {each["name"] for each in given.get("properties") or [] if each not in found.config["properties"]}
        if changed:
            return _said(
                f'updating schema: TYPE_UPDATE_CLASS: bad request :parse class update: property "{changed.pop()}": property fields '
                "other than description cannot be updated through updating the class. Use the add property feature (e.g. "
                '"POST /v1/schema/{className}/properties") to add additional properties',
                allowed=None,
            )
        for part in (
            "invertedIndexConfig",
            "multiTenancyConfig",
            "replicationConfig",
            "vectorConfig",
            "vectorIndexConfig",
        ):
            if part in given:
                found.config[part] = given[part]
        return JSONResponse(found.config)

    async def drop(self, request: Request) -> Response:
        self._database.collections.pop(collection_name(request.path_params["name"]), None)
        return Response()

    async def property(self, request: Request) -> Response:
        found = self._database.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        try:
            return JSONResponse(add_property(found.config, await request.json()))
        except Refused as refused:
            return _said(refused.text, allowed=None)

    async def shards(self, request: Request) -> Response:
        found = self._database.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        asked = request.query_params.get("tenant")
        names = [name for name in sorted(found.shards) if asked in (None, name)]
        return JSONResponse(
            [
                {"name": name, "per_node_status": {NODE: "READY"}, "status": "READY", "vectorQueueSize": 0}
                for name in names
            ]
        )

    # --- tenants ------------------------------------------------------------------------------------------------------

    def _tenants_of(self, request: Request, action: str) -> Collection:
        found = self._database.get(request.path_params["name"])
        if found is None:
            raise Refused(f"{action}class not found")
        return found

    async def tenants(self, request: Request) -> Response:
        action = "failed to execute query: could not get tenants: could not get tenants: "
        return JSONResponse(self._tenants_of(request, action).tenants())

    async def tenant(self, request: Request) -> Response:
        name = request.path_params["tenant"]
        found = self._tenants_of(request, "").tenants()
        return next((JSONResponse(each) for each in found if each["name"] == name), Response(status_code=404))

    async def add_tenants(self, request: Request) -> Response:
        found = self._tenants_of(request, "updating schema: TYPE_ADD_TENANT: ")
        return JSONResponse(found.add_tenants(await request.json()))

    async def update_tenants(self, request: Request) -> Response:
        given = await request.json()
        if any(each["activityStatus"] not in _STATUSES for each in given):
            text = f"activityStatus in body should be one of [{' '.join(_STATUSES)}]"
            return JSONResponse({"code": 606, "message": text}, 422)
        found = self._tenants_of(request, "updating schema: TYPE_UPDATE_TENANT: ")
        return JSONResponse(found.update_tenants(given))

    async def remove_tenants(self, request: Request) -> Response:
        found = self._tenants_of(request, "updating schema: TYPE_DELETE_TENANT: ")
        found.remove_tenants(await request.json())
        return Response()

    # --- objects ------------------------------------------------------------------------------------------------------

    def _shard(self, collection: Collection, tenant: str, where: str) -> Shard:
        try:
            return collection.shard(tenant)
        except Refused as refused:
            raise Refused(f"{where}{refused.text}") from None

    async def _given(
        self, request: Request
    ) -> tuple[Collection, dict[str, Any], dict[str, Any], dict[str, np.ndarray]]:
        given = json.loads(await request.body())
        properties = given.get("properties") or {}
        found = self._database.for_write(given["class"], properties)
        if found is None:
            raise Refused(f'invalid object: class "{given["class"]}" not found in schema')
        try:
            checked = found.checked(properties)
        except Refused as refused:
            raise Refused(f"invalid object: {refused.text}") from None
        listed = dict(given.get("vectors") or {})
        if given.get("vector"):
            listed[found.targets[0]] = given["vector"]
        return found, given, checked, {name: np.array(each, np.float32) for name, each in listed.items()}

    def _put(
        self,
        shard: Shard,
        collection: Collection,
        id: str,
        properties: dict[str, Any],
        vectors: dict[str, np.ndarray],
        tenant: str,
    ) -> Response:
        try:
            return JSONResponse(shown(collection, shard.put(id, properties, vectors), tenant, True))
        except Refused as refused:
            where = f'put object: import into index {collection.name.lower()}: put local object: shard="{tenant}": '
            raise Refused(f"{where}store object in LSM store: {refused.text}", refused.status) from None

    async def insert(self, request: Request) -> Response:
        given = json.loads(await request.body())
        id = given.get("id") or str(uuid.uuid4())
        if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", id):
            return JSONResponse({"code": 601, "message": f'id in body must be of type uuid: "{id}"'}, 422)
        collection, given, properties, vectors = await self._given(request)
        tenant = given.get("tenant", "")
        unknown = tenant and (tenant not in collection.shards or not collection.tenancy["enabled"])
        put = f"put object: import into index {collection.name.lower()}: " if unknown else ""
        shard = self._shard(collection, tenant, f"{put}determine shard: ")
        if id in shard.objects:
            return _said(f"id '{id}' already exists")
        return self._put(shard, collection, id, properties, vectors, tenant)

    async def objects(self, request: Request) -> Response:
        asked = request.query_params
        found = self._database.get(asked.get("class", ""))
        if found is None:
            return Response(status_code=404)
        tenant = asked.get("tenant", "")
        where = f"msg:search index {found.name.lower()} code:422 err:"
        shard, limit = self._shard(found, tenant, where), int(asked.get("limit", 25))
        listed = shard.after(asked.get("after", ""), limit)
        vectors = "vector" in asked.get("include", "")
        objects = [{**shown(found, each, "", vectors), "vectorWeights": None} for each in listed]
        return JSONResponse({"deprecations": [], "objects": objects, "totalResults": len(objects)})

    async def object(self, request: Request) -> Response:
        """Also HEAD. With `node_name` too: there is one node, and it answers for every name."""
        collection, asked = self._database.get(request.path_params["name"]), request.query_params
        if collection is None:
            return Response(status_code=404)
        tenant = asked.get("tenant", "")
        where = f"repo: object by id: search index {collection.name.lower()}: determine shard: "
        found = self._shard(collection, tenant, where).objects.get(request.path_params["id"])
        if found is None:
            return Response(status_code=404)
        if request.method == "HEAD":
            return Response(status_code=204)
        vectors = "vector" in asked.get("include", "")
        return JSONResponse({**shown(collection, found, tenant, vectors), "vectorWeights": None})

    async def replace(self, request: Request) -> Response:
        collection, given, properties, vectors = await self._given(request)
        id, tenant = request.path_params["id"], given.get("tenant", "")
        shard = self._shard(collection, tenant, "determine shard: ")
        if id not in shard.objects:
            return Response(status_code=404)
        return self._put(shard, collection, id, properties, vectors, tenant)

    async def merge(self, request: Request) -> Response:
        collection, given, properties, vectors = await self._given(request)
        shard = self._shard(collection, given.get("tenant", ""), "determine shard: ")
        before = shard.objects.get(request.path_params["id"])
        if before is None:
            return Response(status_code=404)
        shard.put(before.id, {**before.properties, **properties}, {**before.vectors, **vectors})
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        """Whether it was there or not."""
        name = request.path_params["name"]
        collection = self._database.get(name)
        if collection is None:
            text = f"could not delete object from vector repo: delete from non-existing index for {name}"
            return _said(text, 500)
        where = f'delete object from vector repo: delete from index "{collection.name.lower()}": determine shard: '
        self._shard(collection, request.query_params.get("tenant", ""), where).remove(request.path_params["id"])
        return Response(status_code=204)

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def nodes(self, request: Request) -> Response:
        name = request.path_params.get("name")
        asked = list(self._database.collections.values()) if name is None else [self._database.get(name)]
        if None in asked:
            return _said(f'class "{name}" not found', 404)
        verbose = request.query_params.get("output") == "verbose"
        shard_name = request.query_params.get("shardName")
        shards = [
            {
                "asyncReplicationStatus": [],
                "class": each.name,
                "compressed": False,
                "loaded": True,
                "name": tenant,
                "numberOfReplicas": 1,
                "objectCount": len(shard.objects),
                "replicationFactor": 1,
                "vectorIndexingStatus": "READY",
                "vectorQueueLength": 0,
            }
            for each in asked
            if each is not None
            for tenant, shard in each.shards.items()
            if tenant not in each.asleep and shard_name in (None, tenant)
        ]
        node: dict[str, Any] = {
            "batchStats": {"queueLength": 0, "ratePerSecond": 0},
            "name": NODE,
            "operationalMode": "ReadWrite",
            "shards": shards if verbose else None,
            "status": "HEALTHY",
            "version": VERSION,
        }
        if verbose:
            node["stats"] = {"objectCount": sum(s["objectCount"] for s in shards), "shardCount": len(shards)}
        return JSONResponse({"nodes": [node]})

    async def statistics(self, request: Request) -> Response:
        node = {"name": NODE, "ready": True, "open": True, "dbLoaded": True, "isVoter": True, "status": "HEALTHY"}
        return JSONResponse({"statistics": [node], "synchronized": True})
