"""The shard of a key: the same number for ever, evenly spread, and in any language what docs/pull.md says."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import MillpondError, UsageError, shard_of
from millpond.core.shards import ATTRIBUTE, SHARDS_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "pull.md").read_text(encoding="utf-8")
# Producers and subscriptions of users rely on these: a change here sends their keys to other workers.
VECTORS = {
    "AAPL": {2: "0", 4: "2", 7: "5", 8: "2", 1_000: "770"},
    "aapl": {2: "0", 4: "2", 7: "1", 8: "6", 1_000: "614"},
    "order-1": {2: "1", 4: "1", 7: "3", 8: "1", 1_000: "65"},
    "Zürich": {2: "0", 4: "2", 7: "3", 8: "6", 1_000: "390"},
    "東京": {2: "0", 4: "2", 7: "5", 8: "2", 1_000: "914"},
    " ": {2: "1", 4: "1", 7: "3", 8: "1", 1_000: "625"},
}
KEYS: dict[str, Callable[[int], str]] = {
    "numbers": str,
    "padded": lambda n: f"order-{n:08}",
    "even only": lambda n: f"{2 * n}",
    "blocks of 256": lambda n: f"{n * 256:x}",
    "repeated letters": lambda n: "a" * (n + 1),
    "one letter": lambda n: chr(0x100 + n),
    "long beginning": lambda n: f"{'customer/' * 40}{n}",
}


@pytest.mark.parametrize("key", VECTORS)
def test_the_shard_of_a_key_is_pinned(key: str) -> None:
    """The result is part of the public API: it depends on the key and the number alone, and on no release."""
    assert {shards: shard_of(key, shards) for shards in VECTORS[key]} == VECTORS[key]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, SHARDS_MAX))
def test_the_formula_is_the_documented_one(key: str, shards: int) -> None:
    """Eight hexadecimal digits of the SHA-256 of the UTF-8, as a number, modulo the shards, in decimal."""
    number = int(hashlib.sha256(key.encode("utf-8")).hexdigest()[:8], 16)
    assert shard_of(key, shards) == f"{number % shards}"


@pytest.mark.parametrize("shards", [2, 3, 5, 8])
@pytest.mark.parametrize("make", KEYS.values(), ids=KEYS)
def test_keys_of_any_shape_are_spread_evenly(make: Callable[[int], str], shards: int) -> None:
    """No shard is more than a fifth away from its share, also for keys that differ in few bits."""
    many = 4_000
    found = Counter(shard_of(make(n), shards) for n in range(many))
    assert set(found) == {f"{shard}" for shard in range(shards)}
    share = many / shards
    assert all(0.8 * share < count < 1.2 * share for count in found.values()), found


def test_one_shard_has_every_key() -> None:
    """A producer may be written for shards before there are any."""
    assert {shard_of(key, 1) for key in VECTORS} == {"0"}


@pytest.mark.parametrize(
    ("key", "shards", "words"),
    [
        ("", 4, "is empty: give the text that names the document"),
        (7, 4, "must be a str, not int: give it as text"),
        (None, 4, "must be a str, not NoneType"),
        (b"AAPL", 4, "must be a str, not bytes"),
        ("\ud800", 4, "half of a surrogate pair"),
        ("AAPL", 0, "shards is 0: give a number from 1 to 1000"),
        ("AAPL", -1, "shards is -1"),
        ("AAPL", SHARDS_MAX + 1, "shards is 1001"),
        ("AAPL", 4.0, "must be an int, not float"),
        ("AAPL", "4", "must be an int, not str"),
        ("AAPL", True, "must be an int, not bool"),
    ],
)
def test_a_wrong_argument_is_refused(key: Any, shards: Any, words: str) -> None:
    """The error says what is wrong and what to give instead, and never quotes the key."""
    with pytest.raises(UsageError, match=re.escape(words)) as raised:
        shard_of(key, shards)
    assert isinstance(raised.value, MillpondError)
    assert "AAPL" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_the_page_has_the_same_vectors() -> None:
    """A producer in another language is tested against the table in docs/pull.md."""
    table = PAGE.partition("\n| key | ")[2].partition("\n\n")[0]
    numbers = [int(found) for found in re.findall(r"of (\d+)", table.splitlines()[0])]
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", table, re.MULTILINE)
    assert {key: dict(zip(numbers, cells.split(" | "), strict=True)) for key, cells in rows} == {
        key: {number: vectors[number] for number in numbers} for key, vectors in VECTORS.items() if key.strip()
    }
    assert f"`{ATTRIBUTE}`" in PAGE


@pytest.mark.parametrize("key", VECTORS)
def test_the_command_on_the_page_computes_the_same(key: str) -> None:
    """A shell with sha256sum is the smallest other language."""
    (command,) = re.findall(r"^echo \$\(\(0x.*\)\)$", PAGE, re.MULTILINE)
    assert command.count("AAPL") == 1
    own = command.replace("AAPL", f"'{key}'")
    ran = subprocess.run(["sh", "-c", own], capture_output=True, check=True, text=True, encoding="utf-8")
    assert ran.stdout.strip() == VECTORS[key][8]
