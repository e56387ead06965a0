"""Hashes as text: a SHA-256 as 52 characters of base32 (RFC 4648, no padding). Pure; called for every message."""

from __future__ import annotations

import hashlib
import struct

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".ljust(256, b"\0")
_CHARACTERS = 52
# Five bytes make eight characters. Each group of five gets a lane of eight bytes; the last lane is partly filled.
_fives = struct.Struct("5s5s5s5s5s5s2s").unpack
_GAP = b"\0\0\0"
_LANES = 7


def _spreading_steps() -> list[tuple[int, int, int]]:
    """Masks and shifts that spread the eight 5-bit groups of each lane, halves first, until each has a byte."""
    steps = []
    for width in (4, 2, 1):
        low = high = 0
        for start in range(0, _LANES * 64, width * 16):
            ones = (1 << 5 * width) - 1
            low |= ones << start
            high |= ones << 5 * width << start
        steps.append((low, high, 3 * width))
    return steps


_STEPS = _spreading_steps()


def base32_sha256(content: bytes) -> str:
    """Much faster than the standard library's base32, because every message needs it."""
    bits = int.from_bytes(_GAP.join(_fives(hashlib.sha256(content).digest())) + _GAP, "big")
    for low, high, shift in _STEPS:
        bits = bits & low | (bits & high) << shift
    return bits.to_bytes(_LANES * 8, "big").translate(_ALPHABET)[:_CHARACTERS].decode()
