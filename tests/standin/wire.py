"""The gRPC side: searches, batches, deletes by filter, tenants, counts."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc
import numpy as np
from google.protobuf.struct_pb2 import NULL_VALUE
from weaviate.proto.v1.v6300.v1 import (
    aggregate_pb2,
    base_pb2,
    batch_delete_pb2,
    batch_pb2,
    properties_pb2,
    search_get_pb2,
    tenants_pb2,
    weaviate_pb2_grpc,
)

from tests.standin.errors import Refused, not_indexed
from tests.standin.schema import Collection, Database
from tests.standin.shard import MOST, Shard, Stored

T = TypeVar("T")

DEFAULT_LIMIT = 25
"""QUERY_DEFAULTS_LIMIT: what `limit=0` means."""


def _vector(packed: bytes) -> np.ndarray:
    return np.frombuffer(packed, np.float32)


def _where(text: str, call: Callable[[], T]) -> T:
    """What `call` returns; what it refuses, with where it happened."""
    try:
        return call()
    except Refused as refused:
        raise Refused(f"{text}{refused.text}") from None


class Wire(weaviate_pb2_grpc.WeaviateServicer):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def _answer(self, context: grpc.aio.ServicerContext, work: Callable[[], T]) -> T:
        try:
            return work()
        except Refused as refused:
            await context.abort(grpc.StatusCode.UNKNOWN, refused.text)
            raise

    def _collection(self, name: str, where: str = "") -> Collection:
        found = self._database.get(name)
        if found is None:
            raise Refused(f"{where}could not find class {name} in schema")
        return found

    async def Search(self, request, context):
        return await self._answer(context, lambda: self._search(request))

    async def BatchObjects(self, request, context):
        return await self._answer(context, lambda: self._batch(request))

    async def BatchDelete(self, request, context):
        return await self._answer(context, lambda: self._delete(request))

    async def TenantsGet(self, request, context):
        return await self._answer(context, lambda: self._tenants(request))

    async def Aggregate(self, request, context):
        return await self._answer(context, lambda: self._count(request))

    # --- searching ----------------------------------------------------------------------------------------------------

    def _search(self, request: search_get_pb2.SearchRequest) -> search_get_pb2.SearchReply:
        start = time.perf_counter()
        collection = self._collection(request.collection)
        names = self._returned(collection, request)
        filters = request.filters if request.HasField("filters") else None
        if filters is not None:
            _known(collection, filters, "", indexed=True)
        limit = request.limit or DEFAULT_LIMIT
        if request.after:
            self._alone(request)
        kind = "list"
        if request.HasField("near_vector"):
            kind, found = "distance", self._near(collection, request, filters, limit)
        elif request.HasField("bm25_search"):
            kind, found = "score", self._worded(collection, request, filters, limit)
        else:
            found = self._listed(collection, request, filters, limit)
        reply = search_get_pb2.SearchReply(took=time.perf_counter() - start)
        for stored, number in found[request.offset : request.offset + limit]:
            reply.results.append(self._result(collection, stored, names, request.metadata, kind, number))
        return reply

    def _returned(self, collection: Collection, request: search_get_pb2.SearchRequest) -> list[str]:
        everything = [each["name"] for each in collection.config["properties"]]
        if not request.HasField("properties") or request.properties.return_all_nonref_properties:
            return everything
        for name in request.properties.non_ref_properties:
            _where(
                f"extract properties request: get property by name {name} for class {collection.name}: ",
                lambda: collection.about(name),  # noqa: B023 - called at once
            )
        return list(request.properties.non_ref_properties)

    def _bounded(self, request: search_get_pb2.SearchRequest, where: str) -> None:
        if request.offset + request.limit > MOST:
            raise Refused(
                f"{where}invalid pagination params: query maximum results exceeded: the total limit calculated from the provided "
                f"offset '{request.offset}' and limit '{request.limit}' exceeds the configured value for QUERY_MAXIMUM_RESULTS "
                f"'{MOST}'. If you've supplied a negative offset or limit, this may be an underflow error"
            )

    def _alone(self, request: search_get_pb2.SearchRequest) -> None:
        """A cursor goes with nothing but a limit."""
        where = "cursor api: invalid 'after' parameter: "
        others = {
            "where": request.HasField("filters"),
            "sort": bool(request.sort_by),
            "offset": bool(request.offset),
            "other params": request.HasField("near_vector") or request.HasField("bm25_search"),
        }
        for name, given in others.items():
            if given:
                raise Refused(f"{where}{name} cannot be set with after and limit parameters")
        try:
            uuid.UUID(request.after)
        except ValueError:
            text = f"after parameter '{request.after}' is not a valid uuid: invalid UUID length: {len(request.after)}"
            raise Refused(f"{where}{text}") from None

    def _near(
        self,
        collection: Collection,
        request: search_get_pb2.SearchRequest,
        filters: base_pb2.Filters | None,
        limit: int,
    ) -> list[tuple[Stored, float]]:
        asked = request.near_vector
        named = list(asked.targets.target_vectors) or list(asked.target_vectors) or collection.targets
        if named[0] not in collection.targets:
            raise Refused(
                f"extract target vectors: class {collection.name} does not have named vector {named[0]} configured. Available named "
                f"vectors [{' '.join(collection.targets)}]"
            )
        packed = asked.vector_bytes or (
            asked.vectors[0].vector_bytes if asked.vectors else asked.vector_for_targets[0].vector_bytes
        )
        where = "explorer: get class: concurrentTargetVectorSearch): explorer: get class: vector search: "
        self._bounded(request, where)
        index = collection.name.lower()
        shard = _where(f"{where}object vector search at index {index}: ", lambda: collection.shard(request.tenant))
        where = f"{where}object vector search at index {index}: shard {index}_{request.tenant}: "
        return _where(where, lambda: shard.nearest(named[0], _vector(packed), filters, request.offset + limit))

    def _worded(
        self,
        collection: Collection,
        request: search_get_pb2.SearchRequest,
        filters: base_pb2.Filters | None,
        limit: int,
    ) -> list[tuple[Stored, float]]:
        asked = request.bm25_search
        if not asked.query:
            raise Refused("keyword search (bm25) must have query set")
        where = "explorer: get class: vector search: "
        self._bounded(request, where)
        shard = _where(
            f"{where}object search at index {collection.name.lower()}: ", lambda: collection.shard(request.tenant)
        )
        return shard.keywords(asked.query, asked.properties, filters, request.offset + limit)

    def _listed(
        self,
        collection: Collection,
        request: search_get_pb2.SearchRequest,
        filters: base_pb2.Filters | None,
        limit: int,
    ) -> list[tuple[Stored, float]]:
        if request.after:
            where = "cursor api: invalid 'after' parameter: "
            if filters is not None:
                raise Refused(f"{where}where cannot be set with after and limit parameters")
            if request.sort_by:
                raise Refused(f"{where}sort cannot be set with after and limit parameters")
            if request.offset:
                raise Refused(f"{where}offset cannot be set with after and limit parameters")
            try:
                uuid.UUID(request.after)
            except ValueError:
                text = (
                    f"after parameter '{request.after}' is not a valid uuid: invalid UUID length: {len(request.after)}"
                )
                raise Refused(f"{where}{text}") from None
        index = collection.name.lower()
        where = f"explorer: list class: search: object search at index {index}: "
        self._bounded(request, "explorer: list class: search: ")
        shard = _where(where, lambda: collection.shard(request.tenant))
        if request.after:
            found = shard.after(request.after, limit)
        else:
            found = _where(
                f"{where}local shard object search {index}_{request.tenant}: ", lambda: shard.listed(filters)
            )
            for each in reversed(request.sort_by):
                found.sort(key=_sorting(each.path[0]), reverse=not each.ascending)
        return [(stored, 0.0) for stored in found]

    def _result(
        self,
        collection: Collection,
        stored: Stored,
        names: list[str],
        asked: search_get_pb2.MetadataRequest,
        kind: str,
        number: float,
    ) -> search_get_pb2.SearchResult:
        result = search_get_pb2.SearchResult()
        result.properties.target_collection = collection.name
        for name in names:
            _fill(result.properties.non_ref_props.fields[name], collection, name, stored.properties.get(name))
        about = result.metadata
        if asked.uuid:
            about.id, about.id_as_bytes = stored.id, uuid.UUID(stored.id).bytes
        if asked.distance and kind == "distance":
            about.distance, about.distance_present = number, True
        if asked.certainty and kind == "distance":
            about.certainty, about.certainty_present = 1 - number / 2, True
        if asked.score:
            about.score, about.score_present = number if kind == "score" else 0.0, True
        if asked.creation_time_unix:
            about.creation_time_unix, about.creation_time_unix_present = stored.created, True
        if asked.last_update_time_unix:
            about.last_update_time_unix, about.last_update_time_unix_present = stored.updated, True
        if "" in stored.vectors and asked.vector:
            about.vector_bytes = stored.vectors[""].tobytes()
        for name, vector in stored.vectors.items():
            if name and (asked.vector or name in asked.vectors):
                about.vectors.append(base_pb2.Vectors(name=name, vector_bytes=vector.tobytes(), type=1))
        return result

    # --- writing ------------------------------------------------------------------------------------------------------

    def _batch(self, request: batch_pb2.BatchObjectsRequest) -> batch_pb2.BatchObjectsReply:
        """Each for itself; the last of an id wins."""
        reply = batch_pb2.BatchObjectsReply()
        for number, each in enumerate(request.objects):
            try:
                self._store(each)
            except Refused as refused:
                reply.errors.append(batch_pb2.BatchObjectsReply.BatchError(index=number, error=refused.text))
        return reply

    def _store(self, given: batch_pb2.BatchObject) -> None:
        properties = _properties(given.properties)
        collection = self._database.for_write(given.collection, properties)
        if collection is None:
            raise Refused(f"class '{given.collection}' not present in schema")
        try:
            id = str(uuid.UUID(given.uuid))
        except ValueError:
            raise Refused(f"invalid UUID length: {len(given.uuid)}") from None
        checked = collection.checked(properties)
        shard = collection.shard(given.tenant)
        vectors = {each.name or collection.targets[0]: _vector(each.vector_bytes) for each in given.vectors}
        if given.vector_bytes:
            vectors[collection.targets[0]] = _vector(given.vector_bytes)
        shard.put(id, checked, vectors)

    def _delete(self, request: batch_delete_pb2.BatchDeleteRequest) -> batch_delete_pb2.BatchDeleteReply:
        """At most `MOST` a call; `matches` counts them all."""
        where = "batch delete params: "
        collection = self._collection(request.collection, where)
        if not request.HasField("filters"):
            raise Refused(f"{where}no filters in batch delete request")
        _known(collection, request.filters, where)
        shard = _where("batch delete: cannot find objects: ", lambda: collection.shard(request.tenant))
        where = f'batch delete: cannot find objects: find matching doc ids in shard "{request.tenant}": docIds: '
        matching = _where(where, lambda: shard.matching(request.filters))
        gone = matching[:MOST]
        reply = batch_delete_pb2.BatchDeleteReply(matches=len(matching), successful=len(gone))
        for stored in gone:
            if not request.dry_run:
                shard.remove(stored.id)
            if request.verbose:
                reply.objects.append(
                    batch_delete_pb2.BatchDeleteObject(uuid=uuid.UUID(stored.id).bytes, successful=True, error="")
                )
        return reply

    # --- tenants and counts -------------------------------------------------------------------------------------------

    def _tenants(self, request: tenants_pb2.TenantsGetRequest) -> tenants_pb2.TenantsGetReply:
        collection = self._database.get(request.collection)
        if collection is None:
            text = "failed to execute query: could not get tenants: could not get tenants: class not found"
            raise Refused(f"get tenants: {text}")
        found = _where("get tenants: ", collection.tenants)
        if request.HasField("names"):
            found = [each for each in found if each["name"] in set(request.names.values)]
        return tenants_pb2.TenantsGetReply(
            tenants=[
                tenants_pb2.Tenant(
                    name=each["name"], activity_status=f"TENANT_ACTIVITY_STATUS_{each['activityStatus']}"
                )
                for each in found
            ]
        )

    def _count(self, request: aggregate_pb2.AggregateRequest) -> aggregate_pb2.AggregateReply:
        collection = self._collection(request.collection, "parse params: ")
        filters = request.filters if request.HasField("filters") else None
        if filters is not None:
            _known(collection, filters, "parse params: extract filters: ")
        shard: Shard = _where("aggregate: ", lambda: collection.shard(request.tenant))
        where = f"aggregate: shard {request.tenant}: retrieve doc IDs from searcher: "
        number = len(_where(where, lambda: shard.matching(filters)))
        return aggregate_pb2.AggregateReply(single_result=aggregate_pb2.AggregateReply.Single(objects_count=number))


def _sorting(name: str) -> Callable[[Stored], Any]:
    return lambda stored: stored.id if name == "_id" else stored.properties.get(name)


def _known(collection: Collection, filters: base_pb2.Filters, where: str, *, indexed: bool = False) -> None:
    for each in _leaves(filters):
        name = each.target.property
        if name != "_id":
            about = _where(where, lambda: collection.about(name))  # noqa: B023 - called at once
            if indexed and not (about["indexFilterable"] or about["indexSearchable"]):
                raise not_indexed("Filtering", name, "indexFilterable")


def _leaves(filters: base_pb2.Filters) -> Iterator[base_pb2.Filters]:
    if not filters.filters:
        yield filters
    for each in filters.filters:
        yield from _leaves(each)


def _properties(given: batch_pb2.BatchObject.Properties) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, value in given.non_ref_properties.fields.items():
        kind = value.WhichOneof("kind")
        properties[name] = (
            None if kind == "null_value" else list(value.list_value) if kind == "list_value" else getattr(value, kind)
        )
    for each in given.text_array_properties:
        properties[each.prop_name] = list(each.values)
    for each in given.empty_list_props:
        properties[each] = []
    return properties


def _fill(field: properties_pb2.Value, collection: Collection, name: str, value: Any) -> None:
    kind = collection.about(name)["dataType"][0]
    if value is None:
        field.null_value = NULL_VALUE
    elif kind == "text[]":
        field.list_value.text_values.values.extend(value)
    elif kind == "boolean":
        field.bool_value = value
    else:
        setattr(field, f"{kind}_value", value)
