"""Dead letters in the store: the whole delivery, compressed, and why it was buried.

The engine writes letters; the API and the CLI read, replay and purge them. A letter's id is its subscription and
message id, so burying is idempotent. A delivery that does not fit into one document is stored in parts before the
letter. A letter that exists is complete, because

- each attempt to bury gives its parts random names and only creates them, so no part belongs to two letters;
- with its last part an attempt stores a token, and the commit that stores the letter deletes that token, with its
  version as precondition (`plan`): an attempt stores its letter at most once, even if commits arrive late or twice;
- `purge` deletes only the parts that the letter it deletes names, in the same commit;
- an edit stores the corrected payload as one more part, in the commit that makes the letter name it (`correction`);
- parts expire a day after their letter.
"""

from __future__ import annotations

import random
import secrets
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from millpond.concurrency import Pauses
from millpond.core import timestamps
from millpond.core.collections import LETTERS, part_ref, token_ref
from millpond.core.document import is_expired
from millpond.core.errors import Fault, InvalidEvent, Unavailable, gravest
from millpond.core.hashing import base32_sha256
from millpond.core.ids import encode_id
from millpond.core.item import DeadLetter, Item
from millpond.core.model import (
    Conflict,
    Delete,
    Delivery,
    Document,
    Put,
    Ref,
    Result,
    Snapshot,
    Version,
)
from millpond.core.ports import Catalog, Store
from millpond.dead_letters.correction import (
    PARTS_OUTLIVE_US,
    Edit,
    check_edit,
    correction_ref,
    edit_count,
    edited,
    part_refs,
    unpack,
)
from millpond.dead_letters.describe import fault_fields, refusal_of, with_replay
from millpond.dead_letters.filter import ALL_LETTERS, LetterFilter
from millpond.stores.update import Budget, Decide, Decided, Read, retry_conflicts, update

# Well under a document's limit, so that the other fields fit too.
PART_BYTES_MAX = 900_000
_NO_SUBSCRIPTION = "-"
# Limits of the fields for people; the stored delivery is complete.
_SHOWN_CHARS_MAX = 500
_ATTRIBUTES_SHOWN_CHARS_MAX = 10_000
_BUDGET = Budget(tries=10, after_conflict=Pauses(0.001, 0.02))
_SCANNED_AT_ONCE = 100
R = TypeVar("R")
# Sends a delivery through the engine; to the named views only, or to all for None.
Send = Callable[[Delivery, frozenset[str] | None], Awaitable[Result]]


class StoredLetters:
    def __init__(
        self,
        store: Store,
        *,
        keep: int,
        wall_clock: Callable[[], int],
        part_bytes_max: int = PART_BYTES_MAX,
        new_mark: Callable[[], str] = lambda: secrets.token_hex(8),
        jitter: random.Random | None = None,
    ) -> None:
        """`new_mark` names the parts of one attempt to bury; it never returns the same text twice."""
        self._store = store
        self._part_bytes_max = part_bytes_max
        self._keep = keep
        self._wall_clock = wall_clock
        self._new_mark = new_mark
        self._jitter = jitter or random.Random()  # noqa: S311 - spreads retries, no secret

    async def write_letter(self, item: Item) -> DeadLetter:
        # A letter that was purged during its replay is stored again as the message arrived.
        delivery = msgspec.structs.replace(item.delivery, correction=None)
        ref = await self._place(delivery)
        fault = gravest(item.faults)
        refusals = [refusal_of(one) for one in item.faults if one.view is not None]
        packed = zlib.compress(msgspec.msgpack.encode(delivery), level=6)
        fits = len(packed) <= self._part_bytes_max
        if not fits and await self._is_stored(ref):
            # Buried already, and only the acknowledgement was lost: the letter is not written again.
            return DeadLetter(ref, None, fault.reason, refusals=refusals)
        now = self._wall_clock()
        # By the clock that is ahead: if ours is behind, the letter would be deleted as soon as it is corrected.
        expires = max(now, item.delivery.publish_time) + self._keep
        names, token = ([], None) if fits else await self._store_parts(ref, packed, expires)
        document = {
            **_envelope(item, fault),
            "refusals": refusals,
            "delivery": packed if fits else None,
            "parts": names,
            **_data_mark(item.delivery),
            "buriedAt": timestamps.to_datetime(now),
            "expireAt": timestamps.to_datetime(expires),
        }
        aside = _aside(item.delivery) if fits and not item.delivery.subscription else None
        return DeadLetter(ref, document, fault.reason, token, aside, refusals)

    async def _is_stored(self, ref: Ref) -> bool:
        (head,) = await self._store.read([ref])
        return head.data is not None and not is_expired(head.data, self._wall_clock())

    async def _store_parts(self, ref: Ref, packed: bytes, expires: int) -> tuple[list[str], Snapshot]:
        """Store the parts of a letter. Returns their names, and the token that was stored with the last one."""
        mark, size = self._new_mark(), self._part_bytes_max
        gone_at = timestamps.to_datetime(expires + PARTS_OUTLIVE_US)
        names = [f"{mark}-{number:03d}" for number in range(-(-len(packed) // size))]
        token = Put(token_ref(ref, mark), None, {"expireAt": gone_at})
        for number, name in enumerate(names):
            part = {"delivery": packed[number * size : (number + 1) * size], "expireAt": gone_at}
            writes = [Put(part_ref(ref, name), None, part), *([token] if name == names[-1] else [])]
            versions = await self._create(writes)
        return names, Snapshot(token.ref, versions[-1], token.data)

    async def _create(self, writes: Sequence[Put]) -> Sequence[Version | None]:
        committed = await retry_conflicts(lambda: self._store.commit(writes), _BUDGET, self._jitter)
        if isinstance(committed, Conflict):
            raise Unavailable(f"{writes[0].ref.path} could not be stored: other writers kept interfering")
        return committed.versions

    async def _place(self, delivery: Delivery) -> Ref:
        """The ref of the letter.

        Message ids are unique within a topic. Without a subscription (a file, a test) two messages may share an id,
        and the second must not be lost as a copy of the first.
        """
        ref = letter_ref(delivery)
        if not delivery.subscription:
            opened = await self.open_letter(ref)
            if opened is not None and opened[1].data != delivery.data:
                return _aside(delivery)
        return ref

    async def open_letter(self, ref: Ref) -> tuple[Snapshot, Delivery] | None:
        """The letter and the delivery it holds, or None if there is none."""
        opened = await retry_conflicts(lambda: self._open(ref), _BUDGET, self._jitter)
        if isinstance(opened, Conflict):
            raise _restless(ref)
        return opened

    async def _open(self, ref: Ref) -> tuple[Snapshot, Delivery] | Conflict | None:
        """Conflict if the letter changed while it was read."""
        (head,) = await self._store.read([ref])
        if head.data is None:
            return None
        refs = part_refs(head)
        parts = await self._store.read(refs) if refs else []
        if any(part.data is None for part in parts):
            (now,) = await self._store.read([ref])
            if now.version != head.version:
                # Purged, edited, or purged and buried again, while its parts were being read.
                return Conflict()
            if is_expired(head.data, self._wall_clock()):
                return None
            raise Unavailable(f"a part of the letter {ref.id} is gone")
        return head, unpack(head.data, [part.data or {} for part in parts])

    async def replay(self, ref: Ref, send: Send) -> Result | None:
        """Send a letter's message again, as it was or as it was corrected; None if there is no letter.

        The outcome is recorded on the letter.
        """
        opened = await self.open_letter(ref)
        if opened is None:
            return None
        letter, delivery = opened
        result = await send(delivery, views_of(letter))
        if result.settled:
            await self._note_replay(ref, result, edit_count(letter.data or {}))
        return result

    async def edit(self, ref: Ref, edit: Edit) -> bool:
        """Replace the letter's payload, or take its correction back. False if there is no letter.

        The original stays as it arrived. Raises EditRefused, and InvalidEvent if the payload is no JSON object.
        """
        changed = check_edit(edit)
        mark = self._new_mark()

        def decide(found: Sequence[Snapshot]) -> Decided[bool] | Read:
            head, *parts = found
            if head.data is None or is_expired(head.data, self._wall_clock()):
                return Decided(False)
            if not parts and (ref_before := correction_ref(head)) is not None:
                return Read([ref_before])
            return Decided(True, edited(head, parts, changed, mark, self._wall_clock()))

        return await self._update(ref, decide)

    async def _note_replay(self, ref: Ref, result: Result, edits: int) -> None:
        """Record the outcome of a replay on the letter; the letter stays until it is purged or expires."""

        def decide(found: Sequence[Snapshot]) -> Decided[None]:
            (letter,) = found
            if letter.data is None:
                return Decided(None)
            noted = with_replay(letter.data, result, timestamps.to_datetime(self._wall_clock()), edits)
            return Decided(None, [Put(ref, letter.version, noted)])

        await self._update(ref, decide)

    async def purge(self, ref: Ref, wanted: LetterFilter = ALL_LETTERS) -> bool:
        """Delete a letter and its parts. False if there is none, or if `wanted` does not match it any more."""

        def decide(found: Sequence[Snapshot]) -> Decided[bool] | Read:
            head, *parts = found
            if head.data is None or not wanted.matches(head.data):
                return Decided(False)
            if not parts and (refs := part_refs(head)):
                return Read(refs)
            return Decided(True, [Delete(one.ref, one.version) for one in found if one.version is not None])

        return await self._update(ref, decide)

    async def close(self) -> None:
        """Nothing to close: the service owns the store."""

    async def _update(self, ref: Ref, decide: Decide[R]) -> R:
        result = await update(self._store, [ref], decide, _BUDGET, jitter=self._jitter)
        if isinstance(result, Conflict):
            raise _restless(ref)
        return result


def views_of(letter: Snapshot) -> frozenset[str] | None:
    """The views that refused the message; None if it is about the whole message, or of a build without the list."""
    refusals = (letter.data or {}).get("refusals")
    return frozenset(refusal["view"] for refusal in refusals) if refusals else None


def letter_ref(delivery: Delivery) -> Ref:
    subscription = delivery.subscription.rpartition("/")[2] or _NO_SUBSCRIPTION
    try:
        return Ref(LETTERS, encode_id(subscription, delivery.message_id))
    except InvalidEvent:
        # Pub/Sub has no subscription names of that length, but burying must work for any request.
        return Ref(LETTERS, encode_id(base32_sha256(subscription.encode()), delivery.message_id))


def _data_mark(delivery: Delivery) -> dict[str, str]:
    """Distinguishes two messages that have one id and no subscription; `core.plan_burial` compares it."""
    return {} if delivery.subscription else {"dataMark": base32_sha256(delivery.data or b"")[:8]}


def _aside(delivery: Delivery) -> Ref:
    """The ref of a letter without a subscription if another message's letter has the usual one."""
    mark = _data_mark(delivery)["dataMark"]
    return Ref(LETTERS, encode_id(_NO_SUBSCRIPTION, delivery.message_id, mark))


async def matching_letters(
    catalog: Catalog, wanted: LetterFilter, after: str | None = None
) -> AsyncIterator[Snapshot]:
    """The letters that match, by id. Read page by page: letters hold payloads, and there may be many."""
    while True:
        page = await catalog.list_documents(LETTERS, _SCANNED_AT_ONCE, after)
        for letter in page:
            if wanted.matches(letter.data or {}):
                yield letter
        if len(page) < _SCANNED_AT_ONCE:
            return
        after = page[-1].ref.id


def attributes_text(delivery: Delivery) -> str:
    """The attributes as JSON text: a document cannot hold every name that an attribute may have."""
    return msgspec.json.encode(delivery.attributes).decode()


def _restless(ref: Ref) -> Unavailable:
    return Unavailable(f"the letter {ref.id} kept changing")


def _envelope(item: Item, fault: Fault) -> Document:
    """The fields a person reads before opening the letter."""
    delivery, event = item.delivery, item.event
    attributes = attributes_text(delivery)
    event_type = event.event_type if event is not None else None
    return {
        "messageId": delivery.message_id,
        "publishTime": timestamps.to_datetime(delivery.publish_time),
        "subscription": delivery.subscription[:_SHOWN_CHARS_MAX],
        "topic": item.topic,
        "eventType": event_type[:_SHOWN_CHARS_MAX] if event_type is not None else None,
        "attributes": attributes if len(attributes) <= _ATTRIBUTES_SHOWN_CHARS_MAX else None,
        "orderingKey": delivery.ordering_key[:_SHOWN_CHARS_MAX] if delivery.ordering_key is not None else None,
        "deliveryAttempt": delivery.attempt,
        "size": len(delivery.data or b""),
        **fault_fields(fault),
        "replays": 0,
    }
