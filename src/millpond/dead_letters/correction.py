"""The corrected payload of a letter: stored beside the delivery, which stays as it arrived. Pure.

An operator edits the payload of a message that can never succeed as it is. The letter then names one more part,
which holds the corrected payload, and lists who edited it and when. A replay sends the original message id and
publish time with the corrected payload: the message keeps its place in the order. `store` reads and commits.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from millpond.core import timestamps
from millpond.core.collections import part_ref
from millpond.core.decode import decode_object
from millpond.core.errors import EditRefused
from millpond.core.model import Delete, Delivery, Document, Put, Ref, Snapshot, Write
from millpond.dead_letters.filter import ReplayState, state_of

BY_CHARS_MAX = 100
# The corrected payload is one part, so that the commit that stores it fits into one request of every store.
CORRECTION_BYTES_MAX = 900_000
# Parts expire so long after their letter, because a store may delete expired documents in any order.
PARTS_OUTLIVE_US = timestamps.DAY_US
# The letter lists the last edits; it counts all of them.
EDITS_LISTED_MAX = 20


class Edit(NamedTuple):
    """The new payload, None to take the correction back; who edits; and how many edits that person has seen."""

    data: bytes | None
    by: str
    edits: int | None = None


class CheckedEdit(NamedTuple):
    """An edit that may be stored. `packed` is its payload, compressed."""

    edit: Edit
    packed: bytes | None


def check_edit(edit: Edit) -> CheckedEdit:
    """Refuse what could not be replayed. Raises EditRefused, or InvalidEvent if the payload is no JSON object."""
    by = edit.by.strip()
    if not by or len(by) > BY_CHARS_MAX or not by.isprintable():
        raise EditRefused("invalid_name", f"say who edits: by must be 1 to {BY_CHARS_MAX} printable characters")
    packed = None
    if edit.data is not None:
        decode_object(edit.data)
        packed = zlib.compress(edit.data, level=6)
        if len(packed) > CORRECTION_BYTES_MAX:
            text = (
                f"the payload is over {CORRECTION_BYTES_MAX} bytes, compressed: publish it as a new message instead"
            )
            raise EditRefused("payload_too_large", text)
    return CheckedEdit(edit._replace(by=by), packed)


def edited(letter: Snapshot, parts: Sequence[Snapshot], checked: CheckedEdit, mark: str, now: int) -> list[Write]:
    """The writes of an edit. `parts`: the part that holds the correction so far, if there is one.

    Raises EditRefused if the letter is not to be edited any more.
    """
    stored = letter.data or {}
    edit, packed = checked
    _refuse_late(stored, edit)
    before = stored.get("correction")
    if packed is None and before is None:
        raise EditRefused("not_edited", "there is no correction to take back: the payload is the original one")
    size = None if edit.data is None else len(edit.data)
    entry = {"at": timestamps.to_datetime(now), "by": edit.by, "size": size}
    name = None if packed is None else f"{mark}-edit"
    changed = {
        **stored,
        "correction": name,
        "edits": [*stored.get("edits", ()), entry][-EDITS_LISTED_MAX:],
        "editCount": edit_count(stored) + 1,
    }
    writes: list[Write] = [Put(letter.ref, letter.version, changed)]
    if name is not None:
        gone_at = timestamps.from_datetime(stored["expireAt"]) + PARTS_OUTLIVE_US
        part = {"data": packed, "expireAt": timestamps.to_datetime(gone_at)}
        writes.append(Put(part_ref(letter.ref, name), None, part))
    return [*writes, *(Delete(part.ref, part.version) for part in parts if part.version is not None)]


def _refuse_late(stored: Document, edit: Edit) -> None:
    if state_of(stored) is ReplayState.SUCCEEDED:
        raise EditRefused(
            "already_replayed",
            "its message was replayed successfully, and a second version would have the same place in the order: "
            "publish the change as a new message",
        )
    if edit.edits is not None and edit.edits != edit_count(stored):
        last = (stored.get("edits") or [{}])[-1].get("by", "another person")
        raise EditRefused("edited_meanwhile", f"{last} has edited it meanwhile: open the letter again")


def edit_count(stored: Mapping[str, Any]) -> int:
    """How often the letter was edited."""
    return int(stored.get("editCount", 0))


def correction_ref(letter: Snapshot) -> Ref | None:
    """The part that holds the corrected payload; None if the payload is the original one."""
    name = (letter.data or {}).get("correction")
    return None if name is None else part_ref(letter.ref, name)


def part_refs(letter: Snapshot) -> list[Ref]:
    """Every part that the letter names: those of its delivery, and then that of its correction."""
    refs = [part_ref(letter.ref, name) for name in (letter.data or {})["parts"]]
    correction = correction_ref(letter)
    return refs if correction is None else [*refs, correction]


def unpack(stored: Document, parts: Sequence[Document]) -> Delivery:
    """The delivery of a letter with its parts, as `part_refs` lists them."""
    of_delivery = parts[: len(stored["parts"])]
    packed = stored["delivery"] or b"".join(part["delivery"] for part in of_delivery)
    delivery = msgspec.msgpack.decode(zlib.decompress(packed), type=Delivery)
    if stored.get("correction") is None:
        return delivery
    return msgspec.structs.replace(delivery, correction=zlib.decompress(parts[-1]["data"]))
