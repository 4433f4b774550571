"""`python -m tests.standin [--auto-schema]`: serve on spare loopback ports, print `http://127.0.0.1:PORT,GRPCPORT`, go with stdin."""

import argparse
import asyncio
import socket
import sys

import grpc
import uvicorn
from weaviate.proto.v1.v6300.v1 import health_weaviate_pb2, weaviate_pb2_grpc

from tests.standin.rest import Rest
from tests.standin.schema import Database
from tests.standin.wire import Wire

_LARGEST = 104_858_000


async def _healthy(request, context):
    return health_weaviate_pb2.WeaviateHealthCheckResponse(status="SERVING")


def _health() -> grpc.GenericRpcHandler:
    check = grpc.unary_unary_rpc_method_handler(
        _healthy,
        request_deserializer=health_weaviate_pb2.WeaviateHealthCheckRequest.FromString,
        response_serializer=health_weaviate_pb2.WeaviateHealthCheckResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})


async def serve(auto_schema: bool) -> None:
    database = Database(auto_schema)
    options = [("grpc.max_receive_message_length", _LARGEST), ("grpc.max_send_message_length", _LARGEST)]
    server = grpc.aio.server(options=options)
    weaviate_pb2_grpc.add_WeaviateServicer_to_server(Wire(database), server)
    server.add_generic_rpc_handlers((_health(),))
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"http://127.0.0.1:{listening.getsockname()[1]},{grpc_port}", flush=True)
    http = uvicorn.Server(uvicorn.Config(Rest(database).app, log_level="error", lifespan="off"))
    serving = asyncio.create_task(http.serve(sockets=[listening]))
    await asyncio.to_thread(sys.stdin.read)  # ends when whoever started it does, however that ends
    http.should_exit = True
    await serving
    await server.stop(None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--auto-schema", action="store_true", help="as a server that AUTOSCHEMA_ENABLED=false was not set on"
    )
    asyncio.run(serve(parser.parse_args().auto_schema))
