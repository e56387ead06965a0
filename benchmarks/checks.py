"""Shared by all measurements: the usual number of connections, and a target with its measured value."""

from __future__ import annotations

import msgspec

CONNECTIONS = 64


class Check(msgspec.Struct, frozen=True):
    name: str
    target: str
    measured: str
    passed: bool
