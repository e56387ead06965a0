"""The stage of `millpond simulate --views MODULE --events FILE`: a user's views and events instead of the facts.

A value that other processes get: each of them loads the views and the events once. Called by the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from millpond.core.errors import Poison
from millpond.core.route import RouteRules
from millpond.core.view import Tally, View
from millpond.service.rules import route_rules
from millpond.service.views import load_views
from millpond.settings import Settings
from millpond.sim.facts import PublishedMessage
from millpond.sim.instance import settings_of
from millpond.sim.world_frame import WorldReport
from millpond.sim.world_parameters import Swarm, draw, without
from millpond.testing.asking import EventDecoder, ask
from millpond.testing.events import SentEvent, from_file, published
from millpond.testing.faults import NoEvents
from millpond.testing.user_checks import Meanings
from millpond.testing.user_messages import draw_user_messages
from millpond.testing.user_world import UserWorld

# What needs facts, or documents that no message of the file made.
_NOT_HERE = ("legacy", "deletes", "replays", "purged", "runs", "step_failed", "event_lost")


class UserStage(msgspec.Struct, frozen=True):
    """`views` are names of modules, separated by commas; `events` is the path of a file."""

    views: str
    events: str

    @property
    def options(self) -> str:
        views = f"--views {shlex.quote(self.views)} " if self.views else ""
        return f"{views}--events {shlex.quote(self.events)} "

    def draw(self, seed: int) -> tuple[Swarm, list[PublishedMessage]]:
        swarm = self._swarm(seed)
        return swarm, [*draw_user_messages(seed, swarm, _load(self).events)]

    def run(
        self, seed: int, swarm: Swarm, messages: Sequence[PublishedMessage], *, trace: bool = False
    ) -> WorldReport:
        settings = self._settings(swarm)
        rules = route_rules(settings)
        views = load_views(settings)
        meanings = Meanings(views, EventDecoder(views, rules))
        return UserWorld(seed, swarm, messages, meanings, settings, trace=trace).run()

    def run_seed(self, seed: int) -> WorldReport:
        return self.run(seed, *self.draw(seed))

    def check(self) -> None:
        """Load everything once. Raises SettingsError, CheckError, or NoEvents if no view takes an event."""
        _load(self)

    def _swarm(self, seed: int) -> Swarm:
        swarm = msgspec.structs.replace(draw(seed), receipts_expire=False)
        for fault in _NOT_HERE:
            swarm = without(swarm, fault)
        # A dead-letter copy of an event without a time and an id of its own is another event.
        if _load(self).counts_messages:
            swarm = msgspec.structs.replace(swarm, poison_policy="park", dead_letter_attempts=None)
        return swarm

    def _settings(self, swarm: Swarm) -> Settings:
        return settings_of(swarm, {"VIEWS": self.views, "RECEIPT_TTL_DAYS": "36500"})


class _Loaded(NamedTuple):
    events: list[SentEvent]
    # Whether a tally counts events that only their message id tells apart.
    counts_messages: bool


@lru_cache(maxsize=4)
def _load(stage: UserStage) -> _Loaded:
    settings = stage._settings(draw(0))  # noqa: SLF001 - of our own kind
    views, rules = load_views(settings), route_rules(settings)
    decoder = EventDecoder(views, rules)
    events = published(from_file(stage.events), lambda event: _own_time(decoder, event))
    found = [_with_topic(decoder, event) for event in events]
    if not any(is_routed for _, is_routed in found):
        topics = ", ".join(sorted({topic for view in views for topic in view.topics}))
        raise NoEvents(f"events: none of the {len(events)} events is for a view; they take the topics {topics}")
    routed = [event for event, _ in found]
    return _Loaded(routed, any(_counts_messages(views, rules, event) for event, is_routed in found if is_routed))


def _own_time(decoder: EventDecoder, event: SentEvent) -> int | None:
    """The latest time that a view orders it by."""
    times = []
    try:
        decoded = decoder.decode(event.delivery)
    except Poison:
        return None
    for view in decoder.views_of(decoded):
        own = ask(view, lambda: decoder.decode(event.delivery)).said.get("time_of")
        times += [own] if isinstance(own, int) and own >= 0 else []
    return max(times, default=None)


def _with_topic(decoder: EventDecoder, event: SentEvent) -> tuple[SentEvent, bool]:
    """The event with its topic as an attribute, since all messages share a subscription; and whether it has one."""
    try:
        topic = decoder.decode(event.delivery).topic
    except Poison:
        return event, False
    delivery = event.delivery
    if "topic" not in delivery.attributes:
        delivery = msgspec.structs.replace(delivery, attributes={**delivery.attributes, "topic": topic})
    return msgspec.structs.replace(event, delivery=delivery), True


def _counts_messages(views: Sequence[View], rules: RouteRules, event: SentEvent) -> bool:
    decoder = EventDecoder(views, rules)
    decoded = decoder.decode(event.delivery)
    tallies = [view for view in decoder.views_of(decoded) if isinstance(view, Tally)]
    said = [ask(view, lambda: decoder.decode(event.delivery)).said for view in tallies]
    return decoded.event_id is None and any(one.get("identity_time_of") is None for one in said)
