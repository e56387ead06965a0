"""Indexes and TTL policies on Firestore: what Terraform and doctor name is what the code writes.

The documents are made by the real code. Terraform itself works out the local values of firestore.tf: it needs no
provider for them.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS, HISTORY, OWN
from millpond.doctor import time_fields
from millpond.live import spending
from millpond.stores.firestore.segments import encode_segments
from tests.contract.writes import entry
from tests.docs.hcl import ROOT, blocks, evaluate, lists_of, text_of
from tests.docs.written_documents import written_documents

LIMITS = text_of(ROOT / "docs" / "limits.md")
USED = ("view_collections", "indexed", "collection_prefix")
TOLD = ("collection_id", "expire_fields", "unindexed_fields")
LOGS = {EVENT_LOG, EVENT_SEGMENTS}


def last(collection: str) -> str:
    return collection.rpartition("/")[2]


def times_written() -> dict[str, set[str]]:
    """The top-level fields in which a time was written, by the collection's id."""
    return {
        collection: {path[0] for document in documents for path in time_fields.time_fields(document)}
        for collection, documents in written_documents().items()
    }


@functools.cache
def _terraform(given: str) -> dict[str, Any]:
    return evaluate("firestore.tf", USED, TOLD, json.loads(given))


def terraform(**given: Any) -> dict[str, Any]:
    """What Terraform makes of firestore.tf's local values with these variables."""
    return _terraform(json.dumps(given, sort_keys=True))


def exempt(told: Mapping[str, Any]) -> dict[str, set[str]]:
    """The fields without an index, by collection: `expireAt` too."""
    found: dict[str, set[str]] = {name: {"expireAt"} for name in told["expire_fields"]}
    for field in told["unindexed_fields"].values():
        found.setdefault(field["collection"], set()).add(field["field"])
    return found


def test_the_code_was_made_to_write_everything() -> None:
    """Every collection of Millpond's own but the log's, the built-in views, and letters in parts."""
    roots = {last(name) for name in [*time_fields.OWN, *time_fields.BUILT_IN]}
    assert set(written_documents()) == roots - LOGS
    assert roots >= OWN
    assert all(times_written().values())


def test_every_time_that_is_written_has_no_index() -> None:
    """Unless it is in the list of those that are queried, which says why."""
    without = exempt(terraform())
    kept = {last(name): set(fields) for name, fields in time_fields.INDEXED.items()}
    for collection, fields in times_written().items():
        assert fields - without[collection] == kept.get(collection, set()), collection


def test_what_keeps_its_index_is_the_default_of_a_variable() -> None:
    """An operator who asks for none of it turns it off; no time but the old log's is then indexed."""
    kept = {last(name): set(fields) for name, fields in time_fields.INDEXED.items()}
    default = lists_in(blocks("variable")["indexed"])
    assert default == {name: fields for name, fields in kept.items() if name != EVENT_LOG}
    without = exempt(terraform(indexed={}))
    assert {name for name, fields in times_written().items() if not fields <= without[name]} == set()


def lists_in(body: str) -> dict[str, set[str]]:
    return {name: set(re.findall(r'"(\w+)"', values)) for name, values in re.findall(r"(\w+) += \[(.*?)\]", body)}


def test_doctor_asks_for_every_time_that_is_written() -> None:
    """And for nothing else; the log's collections are as their module writes them."""
    asked = {last(name): set(fields) for name, fields in {**time_fields.OWN, **time_fields.BUILT_IN}.items()}
    kept = {last(name): set(fields) for name, fields in time_fields.INDEXED.items()}
    for collection, fields in times_written().items():
        assert asked[collection] == fields - kept.get(collection, set()), collection
    without = exempt(terraform())
    for collection in LOGS:
        assert asked[collection] <= without[collection]


def test_the_log_can_be_searched() -> None:
    """The fields that its queries use keep their indexes, and its body has none."""
    without = exempt(terraform())
    (segment,) = encode_segments([entry("m", event_id="e")], at=0, keep=1)
    assert without[EVENT_SEGMENTS] == segment.data.keys() - {"ids", "counts"}
    assert without[EVENT_LOG] == {"body", "expireAt"}


def test_what_expires_has_a_ttl_policy() -> None:
    """Firestore deletes nothing of which it was not told."""
    expiring = {name for name, documents in written_documents().items() if any("expireAt" in d for d in documents)}
    assert terraform()["expire_fields"] == dict.fromkeys(expiring | LOGS, True)


def test_receipts_have_no_index() -> None:
    """Every message leaves one, and they are never searched."""
    fields = {name for receipt in written_documents()["ops_dedupe"] for name in receipt}
    assert exempt(terraform())["ops_dedupe"] == fields


def test_fields_without_an_index_exist() -> None:
    """A mistyped name would leave the index it was to remove."""
    named = lists_of("unindexed")
    assert set(named) == set(written_documents()) | LOGS
    for collection in set(named) - LOGS:
        written = {name for document in written_documents()[collection] for name in document}
        if collection == HISTORY:
            # Only a store that is billed has it.
            written.add(spending.FIELD)
        assert named[collection] <= written, collection


def test_views_of_your_own_get_exemptions_and_policies() -> None:
    """`source`, `ingestedAt` and `expireAt` of each, and what it names; a TTL policy if it expires."""
    lines = {"unindexed": ["changedAt", "source", "expireAt"], "expires": True, "below_documents": True}
    told = terraform(view_collections={"shop": {}, "lines": lines}, collection_prefix="x_")
    without = exempt(told)
    assert without["shop"] == {"source", "ingestedAt", "expireAt"}
    assert without["lines"] == {"source", "ingestedAt", "expireAt", "changedAt"}
    assert (told["expire_fields"]["shop"], told["expire_fields"]["lines"]) == (False, True)
    assert told["collection_id"]["shop"] == "x_shop"
    assert told["collection_id"]["lines"] == "lines"
    assert "lines.expireAt" not in told["unindexed_fields"]
    assert exempt(terraform()).items() <= without.items()


def test_a_view_of_your_own_may_have_the_collection_of_a_built_in_one() -> None:
    """With BUILT_IN_VIEWS=none it can; what both name is exempt once, and ours still expires."""
    told = terraform(view_collections={"market_ticks": {"unindexed": ["seenAt"]}})
    assert exempt(told)["market_ticks"] == exempt(terraform())["market_ticks"] | {"seenAt"}
    assert told["expire_fields"]["market_ticks"] is True


def test_a_ttl_policy_is_made_only_where_documents_expire() -> None:
    """The resource is made for each `expireAt`, and has a policy if the local value says so."""
    body = blocks('resource "google_firestore_field"')["ttl"]
    assert "for_each = local.expire_fields" in body
    assert 'dynamic "ttl_config" {\n    for_each = each.value ? [1] : []' in body
    assert "\n  index_config {}\n" in body
    body = blocks('resource "google_firestore_field"')["unindexed"]
    assert "for_each = local.unindexed_fields" in body
    assert "\n  index_config {}\n" in body


def test_the_page_says_how_many_fields_are_configured() -> None:
    """Google allows a database 200, and a user's own views need some of them."""
    told = terraform()
    used = len(told["expire_fields"]) + len(told["unindexed_fields"])
    (said,) = re.findall(r"\| fields with a configuration of their own \|.*?\b(\d+) of them", LIMITS)
    assert int(said) == used < 200


@pytest.mark.parametrize("name", ["a/b", ""])
def test_a_collection_is_named_by_its_id(name: str) -> None:
    """A path would be taken for an id that no collection has."""
    with pytest.raises(AssertionError, match="without a slash"):
        terraform(view_collections={name: {}})
