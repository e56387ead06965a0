"""Letters that no Pub/Sub message can hold, or that say very much: they lie in the store instead, and fit there."""

from __future__ import annotations

import pytest

from millpond.core.errors import InvalidEvent, ViewError, trace_of
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery
from millpond.dead_letters.describe import ERROR_CHARS_MAX, bounded_error
from millpond.dead_letters.pubsub import MESSAGE_BYTES_MAX, PublishedLetters
from tests.common.pond import NOW
from tests.common.rig import Sink

FAULT = InvalidEvent("ts is missing")
ATTRIBUTES = {f"name-{number:02d}": "x" * 1_000 for number in range(80)}


async def write_elsewhere(item: Item) -> DeadLetter:
    """Where a letter goes that cannot be published."""
    return DeadLetter(None, None, f"elsewhere: {item.faults[0].reason}")


@pytest.mark.parametrize(
    ("data_bytes", "attributes"),
    [
        (MESSAGE_BYTES_MAX + 1, {}),
        # Each of them fits; together with the data they do not.
        (MESSAGE_BYTES_MAX - 50_000, ATTRIBUTES),
        (1, {f"{number}": "x" for number in range(100)}),
        (1, {"name": "x" * 1_025}),
        (1, {"n" * 257: "x"}),
        (1, {"": "x"}),
        (1, {"googclient": "x"}),
    ],
    ids=["data", "data and attributes", "many", "long value", "long name", "no name", "reserved"],
)
async def test_what_pubsub_would_refuse_is_not_published(
    monkeypatch: pytest.MonkeyPatch, data_bytes: int, attributes: dict[str, str]
) -> None:
    """It would be refused for ever, and the message with it. Nothing is sent: nothing listens at this address."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
    letters = PublishedLetters(topic="dlq", project="p", deadline_s=0.2, otherwise=Sink(write_elsewhere))
    sent = Delivery(message_id="1", publish_time=NOW, data=b"x" * data_bytes, attributes=attributes)
    written = await letters.write_letter(Item(sent, "t", NOW, faults=(FAULT,)))
    await letters.close()
    assert written.reason == f"elsewhere: {FAULT.reason}"


def test_an_error_in_a_letter_has_an_end() -> None:
    """A view may quote the whole payload in what it raises; the letter still has to fit into a document."""
    raised = ViewError("boxes", ValueError("x" * 2_000_000))
    raised.in_full = True
    raised.__cause__ = ValueError("y" * 2_000_000)
    assert len(bounded_error(raised)) == ERROR_CHARS_MAX
    assert len(trace_of(raised) or "") < 2 * ERROR_CHARS_MAX
    assert len(bounded_error(InvalidEvent("\udc80" * 2_000))) == ERROR_CHARS_MAX
