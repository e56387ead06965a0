"""Short, stable names for content: 52 characters of base32 (RFC 4648, no padding) for a SHA-256."""

from __future__ import annotations

import hashlib

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".ljust(256, b"\0")
_GROUPS = 64


def _spreading_steps() -> list[tuple[int, int, int]]:
    """Masks that move 64 groups of five bits apart, halves first, until each has a byte of its own."""
    steps = []
    for width in (32, 16, 8, 4, 2, 1):
        low = high = 0
        for lane in range(0, _GROUPS * 8, width * 16):
            ones = (1 << 5 * width) - 1
            low |= ones << lane
            high |= ones << 5 * width << lane
        steps.append((low, high, 3 * width))
    return steps


_STEPS = _spreading_steps()


def base32_sha256(content: bytes) -> str:
    """The standard library's base32 takes four times as long, and every message needs one."""
    bits = int.from_bytes(hashlib.sha256(content).digest(), "big") << 4
    for low, high, shift in _STEPS:
        bits = bits & low | (bits & high) << shift
    return bits.to_bytes(52, "big").translate(_ALPHABET).decode()
