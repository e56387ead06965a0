"""Clients that leave, or are cut off, in the middle of a request to a path that reads a body."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.bad_requests import MIB, chunk, request_bytes
from tests.common.server import Server

PATHS = ("/pubsub/push", "/events", "/api/replay", "/api/flow-runs")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_leaves_is_no_bug_of_ours(server: Server, path: str) -> None:
    """Half a request, and the client is gone: there is no one to answer, and nothing to log as an error."""
    server.fence()
    head = request_bytes("content-length: 1000", line=f"POST {path} HTTP/1.1").replace(b"millpond", b"localhost")
    with server.connect() as connection:
        connection.sendall(head + b'{"message":')
    assert server.get("/health").status == 200
    assert server.fence() == []


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_is_cut_off_is_told_once(server: Server, path: str) -> None:
    """A body that turns out too big while it is read is one refusal and one line, on every path."""
    server.fence()
    head = request_bytes("transfer-encoding: chunked", line=f"POST {path} HTTP/1.1")
    answer = server.raw(head.replace(b"millpond", b"localhost"), *[chunk(b" " * MIB)] * 15)
    assert (answer.status, answer.json["reason"]) == (413, "body_too_large")
    lines = [json.loads(line) for line in server.fence()]
    assert [(line["http_status"], line["reason"]) for line in lines] == [(413, "body_too_large")]
