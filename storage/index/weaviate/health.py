"""Does the server take a write? Live and ready say yes while it has run out of open files, disk or a leader."""

import secrets
import time
from typing import Any

from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.data import DataObject

from memory.errors import NotFound, Unavailable
from memory.ids import MemoryId, TenantId
from storage.index.weaviate import objects, tenants
from storage.index.weaviate.collection import MEMORY_ID, TERMS, USER_REF, VECTOR, VERSION, create, wanted
from storage.index.weaviate.connection import NAME, Connection
from storage.index.weaviate.placements import Place
from storage.index.weaviate.settings import WeaviateSettings

_LEFT_AFTER_S = 120


class Health:
    """A tenant is made, written to and dropped, in a small collection of its own: that opens files as a tenant that wakes does."""

    def __init__(self, settings: WeaviateSettings, connection: Connection) -> None:
        self._connection = connection
        self._collection = f"{settings.collection}_Health"
        self._want = wanted(self._collection, "health", 1, "flat", settings)

    async def ping(self, client: WeaviateAsyncClient) -> None:
        """Unavailable unless the write is taken. Inside of `Connection.run`."""
        place = Place(self._collection, TenantId(f"h{int(time.time()):x}-{secrets.token_hex(6)}"))
        if not await tenants.make(client, place):
            await create(self._connection, client, self._want)
            if not await tenants.make(client, place):
                raise Unavailable(NAME)
        try:
            await objects.insert(place.opened(client, ConsistencyLevel.QUORUM), [_written(place)])
        except NotFound:
            raise Unavailable(NAME) from None
        except Exception:  # not where the deadline cut it off: it has no time left, and `tidy` comes by
            await tenants.drop(client, place)
            raise
        await tenants.drop(client, place)

    async def tidy(self, client: WeaviateAsyncClient) -> None:
        """What a replica that was killed in mid-ping left behind."""
        now = time.time()
        for tenant in await tenants.tenants_in(client, self._collection):
            if now - int(tenant[1:].partition("-")[0], 16) > _LEFT_AFTER_S:
                await tenants.drop(client, Place(self._collection, tenant))


def _written(place: Place) -> DataObject[dict[str, Any], None]:
    return DataObject(
        uuid=objects.object_id(place.tenant, MemoryId("ping")),
        properties={MEMORY_ID: "ping", USER_REF: "ping", VERSION: 1, TERMS: "ping"},
        vector={VECTOR: [1.0]},
    )
