"""JSON with the names that views read, and values that no producer should send."""

from __future__ import annotations

from hypothesis import strategies as st

PUBLISHED = "2026-01-08T12:00:00Z"
NAMES = (
    *("symbol", "price", "bid", "ask", "size", "open", "close", "volume", "sequence", "seq", "version"),
    *(
        "ts",
        "timestamp",
        "time",
        "start",
        "end",
        "producedAt",
        "publishedAt",
        "updatedAt",
        "decisionAt",
        "createdAt",
    ),
    *("eventId", "event_id", "signalId", "id", "dedupeKey", "strategyId", "state", "action", "side", "targets"),
    *("service", "status", "region", "pipeline_id", "pipeline", "tenant_id", "schemaVersion", "modelVersion"),
    *("topic", "pubsubTopic", "sourceTopic", "event_type", "eventType", "payload", "agent_name", "git_sha"),
    *("", "__x__", "a.b", "é", "\x00", "x" * 1_600),
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 4_000_000_000_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        ("", " ", ".", "..", "__x__", "a/b", "1", "-1", "1e999", "nan", PUBLISHED, "2026-01-08", "x" * 1_600)
    )
    | st.sampled_from((0, -1, 2**63, -(2**63), 2**64, 1e308, 1767873600, 1767873600000))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8)
