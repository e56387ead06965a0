"""Laws of ids and documents: what goes in comes out, what differs stays apart, what does not fit is refused."""

from __future__ import annotations

import copy
import datetime as dt
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.core.document import (
    DEPTH_MAX,
    canonical_json,
    check_ref,
    decode_document,
    encode_document,
    find_fault,
    patched,
    representable,
)
from millpond.core.errors import InvalidEvent, WriteRefused
from millpond.core.ids import ID_BYTES_MAX, decode_id, encode_id
from millpond.core.model import Document, Ref
from tests.common.properties import attempt, examples

HERE = Ref("ponds", "a")
# Everything the encoder looks at, and what it writes: two different ids must not meet after escaping.
AWKWARD = st.text(st.sampled_from("_%/.\0a25FE"), min_size=1, max_size=5)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ID_PARTS = st.lists(AWKWARD | AWKWARD | TEXT.filter(bool), min_size=1, max_size=3)


@examples(500)
@given(ID_PARTS, ID_PARTS)
def test_ids_of_awkward_parts_are_legal_reversible_and_apart(one: list[str], other: list[str]) -> None:
    """Underscores, percents and dots at every seam: a legal path, read back whole, and no other document's."""
    encoded = encode_id(*one)
    check_ref(Ref("ponds", encoded))
    check_ref(Ref(f"ponds/{encoded}/below", encoded))
    assert decode_id(encoded) == tuple(one)
    assert (encode_id(*other) == encoded) == (other == one)


@examples(200)
@given(AWKWARD, st.lists(AWKWARD, min_size=1, max_size=3))
def test_an_id_is_no_beginning_of_two(first: str, rest: list[str]) -> None:
    """A part cannot swallow the separator: one part and several never make the same id."""
    assert encode_id(first, *rest) != encode_id("".join([first, *rest]))
    assert encode_id(first, *rest) != encode_id("__".join([first, *rest]))


@examples(100)
@given(st.sampled_from(("a", "_", "/", "é", "水", "\U0001f30a")), st.integers(-3, 3), st.booleans())
def test_an_id_of_any_letters_may_have_1500_bytes(letter: str, over: int, two_parts: bool) -> None:
    """Counted as bytes once escaped; one more is poison, with its reason."""
    width = len(encode_id(f"x{letter}x").encode()) - 2
    filling = ID_BYTES_MAX // width + over
    text = f"x{f'{letter}x' * (filling // 2)}" if letter == "_" else letter * filling
    parts = ["x", text] if two_parts else [text]
    encoded, fault = attempt(InvalidEvent, encode_id, *parts)
    if fault is not None:
        assert fault.reason == "id_too_long"
        assert _bytes_once_escaped(parts) > ID_BYTES_MAX
    else:
        assert _bytes_once_escaped(parts) == len(encoded.encode()) <= ID_BYTES_MAX
        check_ref(Ref("ponds", encoded))


def _bytes_once_escaped(parts: list[str]) -> int:
    return len("__".join(parts).replace("/", "%2F").encode())


@pytest.mark.parametrize("parts", [[""], ["a", ""], ["", "a"], ["a", "", "b"]])
def test_an_id_needs_every_part(parts: list[str]) -> None:
    """Wherever the gap is: two documents must not meet because a field was empty."""
    with pytest.raises(InvalidEvent) as refusal:
        encode_id(*parts)
    assert refusal.value.reason == "empty_id"


MOMENTS = st.datetimes(timezones=st.just(dt.UTC)) | st.datetimes(
    dt.datetime(1900, 1, 1),  # noqa: DTZ001 - the strategy wants it without a zone, and adds one
    timezones=st.sampled_from(
        (dt.timezone(dt.timedelta(hours=14)), dt.timezone(dt.timedelta(hours=-12, minutes=-30)))
    ),
)
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from((0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)))
SCALARS = (
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | TEXT | st.binary(max_size=20) | MOMENTS
)
NAMES = TEXT.filter(lambda name: name and not (name.startswith("__") and name.endswith("__")))
MAPS = st.recursive(
    st.dictionaries(NAMES, SCALARS, max_size=4),
    lambda maps: st.dictionaries(NAMES, SCALARS | maps | st.lists(SCALARS | maps, max_size=3), max_size=3),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """A value with its types beside it: 1, 1.0 and True are equal, and not the same."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value), repr(value) if isinstance(value, float) else value)


@examples(300)
@given(MAPS)
def test_a_document_comes_back_as_it_was(document: Document) -> None:
    """Every type, at every depth, and minus zero; the document itself is left alone."""
    before = copy.deepcopy(document)
    encoded = encode_document(HERE, document)
    assert typed(decode_document(encoded)) == typed(document)
    assert typed(document) == typed(before)
    assert encode_document(HERE, document, checked=True) == encoded


ANYTHING = st.recursive(
    SCALARS | st.integers() | st.text() | st.datetimes() | st.sampled_from((object(), (1,), {1}, 1j)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@examples(400)
@given(st.dictionaries(st.text(max_size=3) | st.sampled_from(("__x__", "__", "_")), ANYTHING, max_size=3))
def test_whatever_a_view_returns_is_encoded_or_refused(document: Any) -> None:
    """Nothing else is raised; what is encoded comes back the same."""
    encoded, refusal = attempt(WriteRefused, encode_document, HERE, document)
    if refusal is not None:
        assert "ponds/a" in str(refusal)
        return
    assert find_fault(document) is None
    assert decode_document(encoded) == document or "nan" in repr(document)


@examples(100)
@given(st.lists(st.booleans(), min_size=DEPTH_MAX - 3, max_size=DEPTH_MAX + 3))
def test_depth_counts_maps_and_lists_alike(in_lists: list[bool]) -> None:
    """However maps and lists alternate, twenty levels are kept and the next is refused."""
    value: Any = 1
    levels = 0
    for in_list in in_lists:
        # A list directly inside a list is refused for another reason, so there is always a map between.
        value = {"d": [value]} if in_list and type(value) is not list else {"d": value}
        levels += 2 if type(value["d"]) is list else 1
    assert (find_fault(value) is None) == (levels <= DEPTH_MAX)


PATHS = st.lists(st.sampled_from(("a", "b", "a.b", "`")), min_size=1, max_size=3).map(tuple)


def at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document.get(name, ...) if isinstance(document, dict) else ...
    return document


TREES = st.recursive(
    st.integers(), lambda below: st.dictionaries(st.sampled_from(("a", "b", "a.b")), below, max_size=3)
).filter(lambda tree: isinstance(tree, dict))


@examples(300)
@given(TREES, PATHS, st.integers() | MAPS, PATHS)
def test_a_patch_sets_its_path_and_nothing_beside_it(
    document: Any, path: tuple[str, ...], value: Any, elsewhere: tuple[str, ...]
) -> None:
    """The path reads as set, every path beside it as before, and the document it began with is untouched."""
    before = copy.deepcopy(document)
    after = patched(document, {path: value})
    assert document == before
    assert at(after, path) == value
    common = min(len(path), len(elsewhere))
    if path[:common] != elsewhere[:common]:
        # Also where something that is no map had to give way: nothing had ever been below it.
        assert at(after, elsewhere) == at(before, elsewhere)


JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value, with the keys of every map in another order."""
    if isinstance(value, dict):
        items = [(name, shuffled(item, chance)) for name, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


@examples(300)
@given(JSON, JSON, st.randoms(use_true_random=False))
def test_canonical_json_is_one_text_per_value(value: Any, other: Any, chance: random.Random) -> None:
    """The same for every order of keys, another for every other value, and it reads back as the value."""
    text = canonical_json(value)
    assert canonical_json(shuffled(value, chance)) == text
    assert typed(json.loads(text)) == typed(value)
    assert (canonical_json(other) == text) == (typed(other) == typed(value))


@examples(200)
@given(JSON)
def test_whatever_json_a_payload_holds_has_a_representable_form(value: Any) -> None:
    """As it is where a document can hold it, else as its canonical text: never refused, never altered."""
    kept = representable(value)
    assert find_fault({"data": kept}) is None
    if typed(kept) != typed(value):
        assert kept == canonical_json(value).decode()
        assert find_fault({"data": value}) is not None
