"""One check of one view: probes of each event, then of two and three events, then worlds. `check_view` calls it."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

from millpond import settings as settings_module
from millpond.core.errors import Poison, SettingsError, UnroutableEvent
from millpond.core.model import Delivery
from millpond.core.route import RouteRules
from millpond.core.timestamps import SECOND_US
from millpond.core.view import Latest, Merge, Tally, View
from millpond.service.rules import route_rules
from millpond.service.views import check_views
from millpond.settings import Settings
from millpond.testing import faults, reference, state
from millpond.testing.asking import EventDecoder
from millpond.testing.describe import Asker, Evidence, as_fault
from millpond.testing.events import SentEvent, from_file, from_list, published, republished
from millpond.testing.faults import CheckError, CheckReport, NoEvents
from millpond.testing.order import by_document, check_fold, check_identities, check_stamps
from millpond.testing.probes import FaultFound, Probes
from millpond.testing.reference import Take
from millpond.testing.script import MESSAGES_PER_EVENT, Script, draw
from millpond.testing.shrink import shrink
from millpond.testing.world_text import describe_world
from millpond.testing.worlds import Pool, Workbench, WorldBroke, WrongDocument

_SETTINGS = settings_module.load({"STORE": "memory"})
# How much later a copy is republished, in turn: a copy at the same instant is a tie of publish times.
_COPIED_AFTER_S = (3, 0, 40)
# Worlds between two collections of young garbage. By itself the collector looks at every object of the process,
# which takes a sixth of a world's time.
_COLLECT_EVERY = 50


def check(
    view: View | type[View], events: Any, *, worlds: int, seed: int, settings: Settings = _SETTINGS
) -> CheckReport:
    """See `millpond.testing.check_view`."""
    if not isinstance(worlds, int) or isinstance(worlds, bool) or worlds < 1:
        raise CheckError(f"worlds must be a whole number from 1, not {worlds!r}")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise CheckError(f"seed must be a whole number, not {seed!r}")
    checked = as_view(view, settings)
    rules = route_rules(settings)
    if isinstance(events, str | PathLike):
        named = repr(fspath(events))
        return Check(checked, from_file(events), Asker(checked, named, worlds, seed), rules).run()
    if isinstance(events, list | tuple):
        if not events:
            raise CheckError("events is empty: give at least one payload")
        return Check(checked, from_list(events, checked), Asker(checked, None, worlds, seed), rules).run()
    if hasattr(events, "example") and hasattr(events, "map"):
        from millpond.testing.strategies import check_strategy  # noqa: PLC0415 - hypothesis is optional

        return check_strategy(events, Asker(checked, None, worlds, seed), rules)
    raise CheckError(
        "events must be a list of payloads, the path of a file, or a hypothesis strategy, "
        f"not {type(events).__name__}"
    )


def as_view(view: Any, settings: Settings) -> View:
    """The view object, declared as the service requires. Raises CheckError."""
    if inspect.isclass(view) and issubclass(view, View):
        try:
            view = view()
        except Exception as error:
            raise CheckError(f"view: {view.__name__}() raised {type(error).__name__}: {error}") from error
    if not isinstance(view, Latest | Merge | Tally):
        what = view.__name__ if inspect.isclass(view) else type(view).__name__
        raise CheckError(f"view: {what} is no view: give a Latest, a Merge or a Tally, or an object of one")
    try:
        check_views([view], settings, setting="view")
    except SettingsError as error:
        raise CheckError(str(error)) from None
    return view


class Check:
    """A check of a view with a list of events."""

    def __init__(self, view: View, events: Sequence[SentEvent], asker: Asker, rules: RouteRules) -> None:
        self._view = view
        self._rules = rules
        self._asker = asker
        self._pristine = _copied(view)
        self._decoder = EventDecoder([view], rules)
        self._probes = Probes(view, self._decoder, self._fresh)
        # Events that are poison before the view is asked, such as data that is no JSON object.
        self._undecodable: dict[int, str] = {}
        self._events = published(self._wanted(events), self._own_time)

    def run(self) -> CheckReport:
        """Raises ViewFault."""
        try:
            return self.find()
        except FaultFound as found:
            raise as_fault(found.evidence, self._asker) from None

    def find(self) -> CheckReport:
        """Raises FaultFound."""
        takes = self._probe()
        originals = takes[::MESSAGES_PER_EVENT]
        documents = by_document(self._events, originals)
        if not documents:
            self._refuse_nothing(originals)
        dice = random.Random(f"{self._asker.seed}/order")  # noqa: S311 - repeatable on purpose
        if isinstance(self._view, Tally):
            check_identities(self._view, self._decoder, documents)
            check_fold(self._view, self._decoder, documents, dice)
        else:
            check_stamps(self._view, self._decoder, documents)
        self._run_worlds(takes)
        return self._report(originals)

    def _wanted(self, events: Sequence[SentEvent]) -> list[SentEvent]:
        """The events that the view's topics take."""
        found = []
        for event in events:
            try:
                self._decoder.decode(event.delivery)
            except UnroutableEvent:
                continue
            except Poison as fault:
                self._undecodable[event.number] = str(fault)
            else:
                found.append(event)
        if not found:
            topics = ", ".join(self._view.topics)
            why = next(iter(self._undecodable.values()), f"it takes the topics {topics}")
            raise NoEvents(f"events: none of the {len(events)} events is for {self._view.name}: {why}")
        return found

    def _own_time(self, event: SentEvent) -> int | None:
        try:
            own = self._view.time_of(self._decoder.decode(event.delivery))
        except Exception:  # noqa: BLE001 - the probes name it
            return None
        return own if isinstance(own, int) and own >= 0 else None

    def _probe(self) -> list[Take]:
        """What each message and its republished copy mean to the view."""
        asked = [self._probes.examine(event) for event in self._events]
        self._probes.ask_again(self._events, asked)
        return [self._probes.take(event, message) for event, message in self._messages()]

    def _messages(self) -> Iterator[tuple[SentEvent, Delivery]]:
        """Each event, and its copy."""
        for event, later_s in zip(self._events, itertools.cycle(_COPIED_AFTER_S), strict=False):
            yield event, event.delivery
            yield event, republished(event.delivery, later_s * SECOND_US)

    def _refuse_nothing(self, takes: Sequence[Take]) -> None:
        counts = Counter(one.state for one in takes)
        what = ", ".join(f"{count} {state}" for state, count in counts.items())
        poison = next((one.asked.raised for one in takes if one.asked.raised is not None), None)
        why = f"; the first poison is: {poison.text}" if poison is not None else ""
        raise FaultFound(Evidence(faults.NOTHING_APPLIED, f"no event was applied: {what}{why}", self._events[:1]))

    def _run_worlds(self, takes: Sequence[Take]) -> None:
        pool, view = Pool([message for _, message in self._messages()], takes), self._view
        groups = _groups(takes)
        bench = Workbench(view, pool, self._rules)
        before = state.photograph(view)
        with _collecting_seldom() as collect:
            for number in range(self._asker.worlds):
                collect(number)
                script = draw(self._asker.seed, number, groups, receipts_matter=isinstance(view, Tally))
                if _outcome(bench, script) is not None:
                    changed = state.changed(before, state.photograph(view))
                    self._blame_world(pool, script, bench, changed)

    def _blame_world(self, pool: Pool, script: Script, bench: Workbench, changed: Sequence[str]) -> None:
        """Shrink the world, and show what is left of it."""

        def fresh() -> Workbench:
            view = self._fresh()
            return bench if view is None else Workbench(view, pool, self._rules)

        # If only the view's state made it fail, a fresh copy of the view may not: then it is shown as it is.
        if _outcome(fresh(), script) is not None:
            script = shrink(script, lambda smaller: _outcome(fresh(), smaller) is not None)
            outcome = _outcome(fresh(), script)
        else:
            outcome = _outcome(bench, script)
        raise FaultFound(describe_world(self._events, script, outcome, changed))

    def _fresh(self) -> View | None:
        return None if self._pristine is None else _copied(self._pristine)

    def _report(self, originals: Sequence[Take]) -> CheckReport:
        counts = Counter(one.state for one in originals)
        poison = dict(self._undecodable)
        for event, one in zip(self._events, originals, strict=True):
            if one.asked.raised is not None:
                poison[event.number] = one.asked.raised.text
        return CheckReport(
            view=self._view.name,
            events=len(originals) + len(self._undecodable),
            applied=counts[reference.TAKEN],
            filtered=counts[reference.FILTERED],
            too_old=counts[reference.TOO_OLD],
            poison=dict(sorted(poison.items())),
            documents=len({one.ref for one in originals if one.state == reference.TAKEN}),
            worlds=self._asker.worlds,
        )


def _outcome(bench: Workbench, script: Script) -> WrongDocument | WorldBroke | None:
    try:
        return bench.run(script)
    except WorldBroke as broke:
        return broke


def _groups(takes: Sequence[Take]) -> list[list[int]]:
    """The events of each document, by their place; those that make none are a group of their own."""
    found: dict[object, list[int]] = {}
    for at, one in enumerate(takes[::MESSAGES_PER_EVENT]):
        found.setdefault(one.ref if one.state == reference.TAKEN else None, []).append(at)
    return list(found.values())


def _copied(view: View) -> View | None:
    try:
        return copy.deepcopy(view)
    except Exception:  # noqa: BLE001 - a view may hold anything
        return None


@contextmanager
def _collecting_seldom() -> Iterator[Callable[[int], None]]:
    """Worlds leave small cycles behind. Only the young objects are looked at, now and then."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield lambda number: None if number % _COLLECT_EVERY else _collect()
    finally:
        if enabled:
            gc.enable()


def _collect() -> None:
    gc.collect(1)
