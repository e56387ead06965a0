"""Firestore's administration on a gRPC server of the test's own: the emulator has none.

It speaks the service's protocol, over a real channel, and answers `GetField` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.cloud.firestore_admin_v1.types import Field, GetFieldRequest

from millpond.doctor.findings import Finding

NAMES = {"STORE": "firestore", "ENV": "test", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "here"}
# What is known of a field, by the id of its collection and its path; a status code is an error.
Known = Callable[[str, str], Field | grpc.StatusCode]


def environment(project: str, **more: str) -> dict[str, str]:
    return {**NAMES, "GCP_PROJECT": project, **more}


class Administration(grpc.GenericRpcHandler):
    """`google.firestore.admin.v1.FirestoreAdmin/GetField`."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.asked: list[str] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        assert handler_call_details.method == "/google.firestore.admin.v1.FirestoreAdmin/GetField"
        return grpc.unary_unary_rpc_method_handler(
            self._get_field, request_deserializer=GetFieldRequest.deserialize, response_serializer=Field.serialize
        )

    async def _get_field(self, request: GetFieldRequest, context: Any) -> Field:
        self.asked.append(request.name)
        collection, _, path = request.name.split("/collectionGroups/")[1].partition("/fields/")
        found = self._known(collection, path)
        if isinstance(found, grpc.StatusCode):
            await context.abort(found, "no")
        assert isinstance(found, Field)
        found.name = request.name
        return found


def ask(
    known: Known, look: Callable[[grpc.aio.Channel], Awaitable[list[Finding]]]
) -> tuple[list[Finding], list[str]]:
    """What `look` finds over a channel to it, and the full names of the fields it asked for."""

    async def run() -> tuple[list[Finding], list[str]]:
        administration = Administration(known)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([administration])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        found = await look(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        await server.stop(None)
        return found, administration.asked

    return asyncio.run(run())
