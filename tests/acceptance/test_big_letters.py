"""Letters as big as a message can be, one after another, on a running server: its memory stays what it was."""

from __future__ import annotations

import json

from tests.common.memory import Memory
from tests.common.push import JSON, push_body
from tests.common.server import Start

LETTERS = 8
BYTES = 9_900_000


def test_replaying_and_previewing_big_letters_leaves_nothing(start: Start) -> None:
    """Less than two of them: an error that kept its message would keep every one of them, decoded, and more."""
    server = start(POISON_POLICY="park")
    ids = [f"acceptance__big-{number}" for number in range(LETTERS)]
    for number in range(LETTERS):
        body = push_body({"nothing": "x" * BYTES}, message_id=f"big-{number}")
        assert server.push(body).status == 200

    def work() -> None:
        for letter in ids:
            assert server.http.post(f"/api/letters/{letter}/replay", headers=JSON).json()["outcome"] == "poison"
            preview = server.http.post("/api/letters/preview", json={"ids": [letter]}).json()
            assert preview["letters"][0]["reason"] == "unroutable_payload"
        told = server.http.post("/api/letters/preview", content=json.dumps({"ids": ids}), headers=JSON).json()
        assert len(told["letters"]) == LETTERS

    memory = Memory(server.process.pid)
    before = memory.now()
    work()
    assert (memory.now() - before) * 2**20 < 2 * BYTES
