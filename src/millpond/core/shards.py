"""The shard of a key: the value by which filtered subscriptions give each key to one worker. Pure.

Called by producers, through the public API, and by `millpond publish --shards`. The result for a key never changes:
producers in other languages compute the same number, by the formula and the test vectors in docs/pull.md. Nothing
that decides on the content of a document may use it.
"""

from __future__ import annotations

import hashlib

from millpond.core.errors import UsageError

ATTRIBUTE = "shard"
SHARDS_MAX = 1_000
# 32 bits are a plain integer in every language. They are enough: with 1,000 shards, the shares of two shards differ
# by less than one part in four million.
_BYTES = 4


def shard_of(key: str, shards: int) -> str:
    """The value of the Pub/Sub attribute `shard` for messages with this key: "0" to one less than `shards`.

    It is the first four bytes of the SHA-256 of the key's UTF-8, as an unsigned big-endian number, modulo `shards`.
    The key is taken as it is: neither trimmed, nor changed in case.
    """
    # A boolean is an integer to Python, and never a number of shards.
    if type(shards) is not int:
        raise UsageError(f"shards must be an int, not {type(shards).__name__}: give the number of shards")
    if not 1 <= shards <= SHARDS_MAX:
        raise UsageError(f"shards is {shards}: give a number from 1 to {SHARDS_MAX}, the same in every producer")
    if not isinstance(key, str):
        raise UsageError(f"the key of a shard must be a str, not {type(key).__name__}: give it as text")
    if not key:
        raise UsageError("the key of a shard is empty: give the text that names the document")
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        text = "the key of a shard has half of a surrogate pair, which UTF-8 cannot hold: decode it properly first"
        raise UsageError(text) from None
    return str(int.from_bytes(hashlib.sha256(encoded).digest()[:_BYTES], "big") % shards)
