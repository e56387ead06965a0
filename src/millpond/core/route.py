"""Delivery → Item: the decoded event, its topic, and one Target for each view of the topic. Called by the engine.

Pure: the result depends on the message and the settings alone. A fault of the message is recorded on the item, not
raised, so that the engine handles faults in one place.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.collections import RECEIPTS
from millpond.core.decode import decode_payload
from millpond.core.document import DOCUMENT_BYTES_MAX, encode_document
from millpond.core.errors import Fault, InvalidEvent, Poison, UnroutableEvent, ViewError, WriteRefused, refused_by
from millpond.core.event_identity import logical_key
from millpond.core.ids import SEPARATOR, encode_id
from millpond.core.item import Item, Target
from millpond.core.model import Delivery, Document, Event, Outcome, Ref
from millpond.core.returned import check_document, check_order, check_time, wrong_address
from millpond.core.stamp import clamp_event_time, encode_stamp
from millpond.core.topics import TopicRules, Topics
from millpond.core.view import DELETE, TOMBSTONE, Latest, Merge, Tally, View


class RouteRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings routing depends on."""

    env: str
    topics: TopicRules = TopicRules()
    max_future_skew: int = 300 * timestamps.SECOND_US
    receipts_by_message: bool = False
    receipts_of_tallies_only: bool = False
    naive_as_utc: bool = False


class Router:
    def __init__(self, views: Sequence[View], rules: RouteRules) -> None:
        self.views = tuple(views)
        self._rules = rules
        self.topics = Topics(views, rules.topics)
        self._receipt_prefixes: dict[str, str] = {}

    def only(self, names: Container[str]) -> Router:
        """A router that resolves topics in the same way and feeds only the named views."""
        router = Router(self.views, self._rules)
        for topic, views in router.topics.feeding.items():
            router.topics.feeding[topic] = [view for view in views if view.name in names]
        return router

    def route(
        self,
        delivery: Delivery,
        arrived_at: int,
        *,
        replay: bool = False,
        bury: bool = True,
        only: frozenset[str] | None = None,
    ) -> Item:
        """The item of a delivery. With `only`, the other views of its topic are not asked."""
        topic, event = "", None
        try:
            payload = decode_payload(delivery)
            topic, shown = self.topics.resolve(delivery, payload)
            event = Event(
                message_id=delivery.message_id,
                publish_time=delivery.publish_time,
                topic=topic,
                payload=payload.payload,
                envelope=payload.envelope,
                attributes=delivery.attributes,
                event_type=payload.event_type or delivery.attributes.get("event_type"),
                event_id=payload.event_id,
                source_topic=None if shown == topic else shown,
                naive_as_utc=self._rules.naive_as_utc,
            )
        except (Poison, ViewError) as fault:
            # Of the whole message: until its topic is known, no view is asked for a document.
            fault.view = None
            return Item(delivery, topic, arrived_at, event, faults=(fault,), replay=replay, bury=bury)
        targets: list[Target] = []
        faults: list[Fault] = []
        size = len(delivery.correction or delivery.data or b"")
        for view in self.topics.feeding[topic]:
            if only is None or view.name in only:
                target = self._target(view, event, size)
                # A view that refuses the event holds up no other view.
                (targets if isinstance(target, Target) else faults).append(target)  # type: ignore[arg-type]
        for name in sorted(only - {view.name for view in self.topics.feeding[topic]}) if only else ():
            gone = UnroutableEvent(f"the view {name} is not loaded, or does not feed on the topic {topic} any more")
            faults.append(refused_by(name, gone))
        return Item(delivery, topic, arrived_at, event, targets, faults=faults, replay=replay, bury=bury)

    def _target(self, view: View, event: Event, data_bytes: int) -> Target | Fault:
        try:
            if not view.wants(event):
                return _unwanted(view)
            target = self._build_target(view, event)
            _refuse_unstorable(target, data_bytes)
        except WriteRefused as refusal:
            refusal.view = view.name
            return refusal
        except Poison as fault:
            if not event.envelope and isinstance(event.payload.get("payload"), dict):
                text = f"{fault}; its `payload` was not opened, because the message has no event_type"
                fault = InvalidEvent(text, fault.reason)
            return refused_by(view.name, fault)
        except Exception as error:  # noqa: BLE001 - a view may raise anything, and others take the same event
            return ViewError(view.name, error)
        return target

    def _build_target(self, view: View, event: Event) -> Target:
        published = event.publish_time
        own_time = view.time_of(event)
        event_time = published if own_time is None else own_time
        sequence = view.sequence_of(event)
        if not view.representable:
            check_order(view, own_time, sequence)
        order_time = clamp_event_time(event_time, published, self._rules.max_future_skew)
        stamp = encode_stamp(order_time, sequence, published, event.message_id, sequence_first=view.sequence_first)
        if view.stamp_prefix:
            stamp = view.stamp_prefix + stamp
        identity_time = view.identity_time_of(event, own_time)
        if identity_time is not own_time and identity_time is not None:
            check_time(view, "identity_time_of", identity_time)
        key = logical_key(event, identity_time, sequence)
        collection, document_id = view.collection_of(event), view.id_of(event)
        if type(collection) is not str or type(document_id) is not str:
            raise wrong_address(view, collection, document_id)
        ref = Ref(collection, document_id)
        source = _provenance(event, view, stamp, key)
        content, wanted = _content(view, event)
        settled = None if wanted else Outcome.FILTERED
        if wanted and view.late_after_s and self._too_old(view, event, event_time):
            settled = Outcome.TOO_OLD
        if content is not None:
            if view.retention_days is not None:
                keep_us = round(view.retention_days * timestamps.DAY_US)
                content["expireAt"] = timestamps.to_datetime(published + keep_us)
            # A view may add to `source` (a bar's revisionAt), never replace the fields that ordering uses.
            content["source"] = {**content["source"], **source} if "source" in content else source
        receipt = self._receipt(event, key) if self._leaves_receipts(view) else None
        return Target(view, ref, ref.path, stamp, key, event_time, source, content, receipt, settled)

    def _too_old(self, view: View, event: Event, event_time: int) -> bool:
        """Compared with publish time, not with a clock, so that an outage or a replay makes no event late."""
        late_us = round((view.late_after_s or 0) * timestamps.SECOND_US)
        late_time = view.late_time_of(event, event_time)
        if late_time is not event_time:
            check_time(view, "late_time_of", late_time)
        return late_time < event.publish_time - late_us

    def _leaves_receipts(self, view: View) -> bool:
        """Other documents than those of tallies are right without receipts."""
        return view.receipts and (not self._rules.receipts_of_tallies_only or isinstance(view, Tally))

    def _receipt(self, event: Event, key: str) -> Ref:
        if self._rules.receipts_by_message:
            return Ref(RECEIPTS, encode_id(event.message_id))
        prefix = self._receipt_prefixes.get(event.topic)
        if prefix is None:
            prefix = encode_id(self._rules.env, event.topic) + SEPARATOR
            self._receipt_prefixes[event.topic] = prefix
        return Ref(RECEIPTS, prefix + key)


def _refuse_unstorable(target: Target, data_bytes: int) -> None:
    """Refuse an event whose content no document can hold. In a batch, a later event could overwrite and hide it.

    Built-in views make only representable values, so their content is checked only if the message is big.
    """
    if target.content is None or target.settled is not None:
        return
    checked = target.view.representable
    if not checked or data_bytes > DOCUMENT_BYTES_MAX // 8:
        encode_document(target.ref, target.content, checked=checked)


def _content(view: View, event: Event) -> tuple[Document | None, bool]:
    """(the content that the view returns for the event, whether the view wants the event)."""
    if isinstance(view, Latest):
        document = view.document(event)
        if document is DELETE:
            return dict(TOMBSTONE), True
        return _checked(view, "document", document), document is not None
    if isinstance(view, Merge):
        fields = view.fields(event)
        return _checked(view, "fields", fields), bool(fields)
    assert isinstance(view, Tally)  # noqa: S101 - the loader admits no other kind
    return None, True


def _checked(view: View, method: str, content: Any) -> Document | None:
    # Built-in views make a new dict for each event, so theirs is not copied.
    if content is None or view.representable:
        return content  # type: ignore[no-any-return]
    return content.copy() if type(content) is dict else check_document(view, method, content)


def _unwanted(view: View) -> Target:
    """The target of an event that the view does not want: no other method of the view is called."""
    return Target(view, Ref("", ""), "", "", "", 0, {}, None, None, Outcome.FILTERED)


def _provenance(event: Event, view: View, stamp: str, key: str) -> Document:
    source: Document = {
        "topic": event.source_topic or event.topic,
        "messageId": event.message_id,
        "publishedAt": timestamps.to_datetime(event.publish_time),
        "stamp": stamp,
        "key": key,
    }
    if view.order:
        source["order"] = view.order
    envelope = event.envelope
    if envelope:
        producer = {
            name: envelope[name]
            for name in ("agent_name", "git_sha", "trace_id")
            if isinstance(envelope.get(name), str)
        }
        if producer:
            source["producer"] = producer
    return source
