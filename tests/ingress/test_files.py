"""ingress.files: lines → deliveries, without any file."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.cli.push_bodies import encode_push
from millpond.core.decode import decode_push
from millpond.core.model import Delivery
from millpond.ingress import files
from millpond.ingress.files import FileLine, LineCutter, decode_lines

SHORT = b'{"topic": "t", "data": {"price": 1.10}, "publishTime": "2026-01-08T12:00:00Z"}'


def only(line: bytes, **options: int) -> FileLine:
    (found,) = decode_lines([line], **options)
    return found


def fault(line: bytes) -> str:
    found = only(line)
    assert found.delivery is None
    return found.fault or ""


def delivery(line: bytes, **options: int) -> Delivery:
    found = only(line, **options)
    assert found.delivery is not None, found
    return found.delivery


def test_the_short_form_keeps_the_data_as_written() -> None:
    """Digits, spaces and key order of the data survive; the topic becomes an attribute."""
    found = delivery(SHORT)
    assert found.data == b'{"price": 1.10}'
    assert found.attributes == {"topic": "t"}


def test_ids_depend_on_the_line_and_its_number() -> None:
    """The same line at the same place has the same id; anything else has another, whatever ends the line."""
    one = delivery(SHORT).message_id
    assert delivery(SHORT + b"\r").message_id == one
    assert delivery(SHORT, first=2).message_id != one
    assert delivery(SHORT.replace(b"1.10", b"1.11")).message_id != one


def test_numbers_count_blank_lines() -> None:
    """The number of a line is the one an editor shows."""
    assert [line.number for line in decode_lines([b"", SHORT, b"  ", b"x"], first=7)] == [8, 10]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", ""),
        (b"[]", "Expected `object`"),
        (b'{"topic": "t", "publishTime": 1}', "data"),
        (b'{"data": "text", "publishTime": 1}', "data must be a JSON object"),
        (b'{"data": {}, "publishTime": "2026-01-08"}', "publishTime must be"),
        (b'{"data": {}, "publishtime": 1}', "publishtime"),
        (b'{"data": {}, "publishTime": 1, "attributes": {"n": 1}}', "attributes"),
        (b'{"data": {}, "publishTime": 1, "messageId": "a\\u0000"}', "messageId"),
        (b'{"message": {"messageId": "1"}}', "publishTime"),
        (b'{"message": 1}', "message"),
        (b'{"data": {"a": ' + b"[" * 100_000, "nests too deeply"),
    ],
)
def test_what_is_wrong_is_said(line: bytes, words: str) -> None:
    """Each fault names what is wrong with the line; a blank line is no fault."""
    if not line:
        assert list(decode_lines([line])) == []
        return
    assert words in fault(line)


def test_lines_over_the_limit_are_refused_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without end costs no more memory than the limit, and the next line is read again."""
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 100)
    cutter = LineCutter()
    lines: list[bytes] = []
    for _ in range(50):
        lines += cutter.feed(b"x" * 30)
        (rest,) = copy.copy(cutter).end()
        assert len(rest) <= 101
    lines += cutter.feed(b"\n" + SHORT + b"\n")
    assert [line.delivery is None for line in decode_lines(lines)] == [True, False]
    assert "over 100 bytes" in fault(lines[0])


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_cutting_does_not_depend_on_the_chunks(lines: list[bytes], size: int) -> None:
    """However the bytes arrive, the lines are the same."""
    whole = b"\n".join(lines)
    cutter = LineCutter()
    found = [line for at in range(0, len(whole), size) for line in cutter.feed(whole[at : at + size])]
    found += cutter.end()
    wanted = whole.split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])


@given(
    st.builds(
        Delivery,
        message_id=st.text("abc-é", min_size=1, max_size=20),
        publish_time=st.integers(0, 4_000_000_000_000_000),
        data=st.none() | st.binary(max_size=50),
        attributes=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
        subscription=st.text(max_size=10),
        ordering_key=st.none() | st.text(max_size=5),
        attempt=st.none() | st.integers(1, 9),
    )
)
def test_what_is_sent_decodes_to_the_same_delivery(sent: Delivery) -> None:
    """encode_push is decode_push backwards, so going through a server changes nothing about a line."""
    assert decode_push(encode_push(sent)) == sent
