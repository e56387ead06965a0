"""Folder names for runs and steps: any id becomes a unique name that every file system takes. Pure."""

from __future__ import annotations

from urllib.parse import quote

from millpond.core.hashing import base32_sha256

NAME_CHARS_MAX = 150
_KEPT = " !#$&'()+,;=@[]^{}~"


def folder_name(any_id: str) -> str:
    """Readable for ordinary ids; a long one keeps its beginning and ends in a digest of the whole."""
    # A name of dots names another folder, and a leading dot hides a folder.
    name = quote(any_id, safe=_KEPT)
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > NAME_CHARS_MAX:
        # No ordinary name has this form: elsewhere a percent sign is followed by two hexadecimal digits.
        name = f"{name[:80]}%~{base32_sha256(any_id.encode())}"
    return name or "%"
