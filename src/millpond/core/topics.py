"""The topic of a message, from names that it and its subscription give, in this order. Pure; `Router` calls it.

    ROUTES · attributes · payload · SUBSCRIPTION_TOPIC_MAP · SOURCE_TOPIC · event_type · subscription · shape

A name that no view feeds on is skipped. The first name that a view feeds on selects the views; the first name that
is given at all is stored as `source.topic`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from millpond.core.decode import Payload
from millpond.core.errors import SettingsError, UnroutableEvent, ViewError
from millpond.core.model import Delivery
from millpond.core.suggest import did_you_mean, nearest
from millpond.core.view import View

T = TypeVar("T")

# Pub/Sub's characters for a topic's id. Other text is neither shown nor quoted in a log.
_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9._~+%-]{0,254}", re.ASCII)
# The places that may hold a name, and what errors call each. An unwrapped push has its attributes as headers, with
# lower-case names.
_IN_ORDER = ("topic", "pubsubTopic", "sourceTopic")
_NAMES = frozenset(_IN_ORDER)
_ATTRIBUTES = tuple((name, f"the attribute {name}") for name in (*_IN_ORDER, "pubsubtopic", "sourcetopic"))
_FIELDS = tuple((name, f"the field {name}") for name in _IN_ORDER)
_INNER_FIELDS = tuple((name, f"the field payload.{name}") for name in _IN_ORDER)
_TYPES = tuple((name, f"the attribute {name}") for name in ("event_type", "eventType", "eventtype"))
_SUBSCRIPTION = "the subscription's name"
# How similar two names must be for one to count as a typing error: in a hint, and to refuse to start.
_ALIKE = 0.75
_SLIP = 0.9


class TopicRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that topic resolution depends on."""

    routes: Mapping[str, Mapping[str, str]] = {}
    subscription_topics: Mapping[str, str] = {}
    source_topic: str | None = None


class _Given(NamedTuple):
    """A name that was given, and the place that gave it."""

    name: str
    where: str


class Topics:
    """The topics that views feed on, and the event types that stand for them."""

    def __init__(self, views: Sequence[View], rules: TopicRules) -> None:
        self._rules = rules
        self.feeding: dict[str, list[View]] = {}
        self._of_type: dict[str, str] = {}
        for view in views:
            for topic in view.topics:
                self.feeding.setdefault(topic, []).append(view)
            for event_type in view.event_types:
                self._of_type.setdefault(event_type, view.topics[0])
        self._shapes = [view for view in views if type(view).matches is not View.matches]

    def resolve(self, delivery: Delivery, payload: Payload) -> tuple[str, str]:
        """(the topic its views feed on, the topic's own name to show). Raises UnroutableEvent."""
        attribute = delivery.attributes.get("topic")
        if attribute in self.feeding and "/" not in attribute and not self._rules.routes:
            return attribute, attribute
        found, shown = self._by_route(delivery.subscription) if self._rules.routes else (None, None)
        for name, _, is_topic in self._places(delivery, payload):
            if found is not None and (shown is not None or not is_topic):
                # The places that name topics come first, so no later place can name one to show.
                break
            if not name or type(name) is not str or not (short := _short(name)):
                continue
            if is_topic and shown is None and self._may_be_shown(short):
                shown = short
            if found is None:
                found = self.known(short)
        found = found or self._by_shape(payload)
        if found is None:
            raise self._unroutable(delivery, payload)
        return found, shown or found

    def _by_route(self, subscription: str) -> tuple[str | None, str | None]:
        """(the topic that selects views, the name to show). ROUTES takes precedence; its topic is only shown."""
        route = _of_subscription(self._rules.routes, subscription)
        if route is None:
            return None, None
        topic = _short(route["topic"])
        return self.known(_short(route["kind"])), topic if self._may_be_shown(topic) else None

    def known(self, name: str) -> str | None:
        """The topic of a name: the name itself if a view feeds on it, or the topic of that event type."""
        return name if name in self.feeding else self._of_type.get(name)

    def of_subscription(self, subscription: str) -> tuple[str, str] | None:
        """(topic, the setting or name that gives it) if all messages of the subscription have that topic."""
        rules = self._rules
        route = _of_subscription(rules.routes, subscription)
        for name, where in (
            (route and route["kind"], "ROUTES"),
            (_of_subscription(rules.subscription_topics, subscription), "SUBSCRIPTION_TOPIC_MAP"),
            (rules.source_topic, "SOURCE_TOPIC"),
            (subscription, "its own name"),
        ):
            topic = self.known(_short(name)) if name else None
            if topic is not None:
                return topic, where
        return None

    def check(self) -> None:
        """Raise SettingsError if a setting names a topic that no view feeds on: its messages would be poison."""
        for subscription, route in self._rules.routes.items():
            if self.known(_short(route["kind"])) is None:
                raise self._unknown("ROUTES", subscription, _short(route["kind"]))
        for subscription, value in self._rules.subscription_topics.items():
            name = _short(value)
            if self.of_subscription(subscription) is None and not self._may_resolve_later(name):
                raise self._unknown("SUBSCRIPTION_TOPIC_MAP", subscription, name)

    def _may_resolve_later(self, name: str) -> bool:
        """Whether messages may still be routed by event_type or shape, so that the name may be a team's own.

        `prod-market-ticks` is one. `market-tick` is a typing error: messages without a type would be buried.
        """
        slip = self._nearest(name, _SLIP)
        return bool(self._of_type or self._shapes) and (slip is None or slip.lower() in name.lower())

    def _given(self, delivery: Delivery, payload: Payload) -> list[_Given]:
        """Every name that is given, in the form that is compared: without its path, trimmed."""
        places = [place for place in self._places(delivery, payload) if type(place[0]) is str]
        return [_Given(short, where) for name, where, _ in places if (short := _short(name))]

    def _places(self, delivery: Delivery, payload: Payload) -> Iterator[tuple[Any, str, bool]]:
        """(the value, what errors call its place, whether the place names topics), in the order of precedence."""
        rules, attributes, outer = self._rules, delivery.attributes, payload.outer
        if attributes:
            for name, where in _ATTRIBUTES:
                yield attributes.get(name), where, True
        # Few payloads have one of these fields.
        if not _NAMES.isdisjoint(outer):
            for name, where in _FIELDS:
                yield outer.get(name), where, True
        if payload.envelope and not _NAMES.isdisjoint(payload.payload):
            for name, where in _INNER_FIELDS:
                yield payload.payload.get(name), where, True
        if rules.subscription_topics:
            yield _of_subscription(rules.subscription_topics, delivery.subscription), "SUBSCRIPTION_TOPIC_MAP", True
        yield rules.source_topic, "SOURCE_TOPIC", True
        yield payload.event_type, "event_type", False
        if attributes:
            for name, where in _TYPES:
                yield attributes.get(name), where, False
        yield delivery.subscription, _SUBSCRIPTION, False

    def _may_be_shown(self, name: str) -> bool:
        return name not in self._of_type and _LEGAL.fullmatch(name) is not None

    def _by_shape(self, payload: Payload) -> str | None:
        for view in self._shapes:
            try:
                if view.matches(payload.payload):
                    return view.topics[0]
            except Exception as error:
                raise ViewError(view.name, error) from error
        return None

    def _unroutable(self, delivery: Delivery, payload: Payload) -> UnroutableEvent:
        """The error: which names were tried, and which topic was probably meant."""
        tried = self._given(delivery, payload)
        if tried and tried[-1].where == _SUBSCRIPTION and self._nearest(tried[-1].name) is None:
            # Nearly every message has a subscription, and its name seldom means a topic.
            tried.pop()
        if not tried:
            return UnroutableEvent(
                "no topic could be found for the message: set the attribute `topic`, or ROUTES or "
                "SUBSCRIPTION_TOPIC_MAP for its subscription"
            )
        names = " or ".join(f"{_quoted(given.name)} (from {given.where})" for given in tried[:3])
        meant = did_you_mean(self._nearest(tried[0].name))
        return UnroutableEvent(f"no view feeds on {names}; {meant}known topics: {', '.join(sorted(self.feeding))}")

    def _unknown(self, setting: str, subscription: str, name: str) -> SettingsError:
        known = f"known topics: {', '.join(sorted(self.feeding))}"
        meant = did_you_mean(self._nearest(name))
        text = f'no view feeds on "{name:.80}"; {meant}{known}'
        if setting != "ROUTES":
            text += "; ROUTES gives a subscription a kind and a topic's name of its own"
        return SettingsError(setting, f"{subscription}: {name}", text)

    def _nearest(self, name: str, alike: float = _ALIKE) -> str | None:
        return nearest(name, (*sorted(self.feeding), *sorted(self._of_type)), alike)


def _quoted(name: str) -> str:
    """The name for an error text. Error texts are logged, so text that may be payload is not quoted."""
    return f'"{name}"' if _LEGAL.fullmatch(name) else "text that is no topic's name"


def _of_subscription(table: Mapping[str, T], subscription: str) -> T | None:
    """A table's entry for a subscription, by its full path or its short name."""
    return table.get(subscription) or table.get(_short(subscription))


def _short(name: str) -> str:
    return name.rpartition("/")[2].strip()
