"""The simulated operator: writes documents from before Millpond, deletes documents, replays and purges letters.

It also runs the store's expiry, which removes expired documents some time after they expire. Owned by `world.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from millpond.core.collections import LETTERS
from millpond.core.errors import MillpondError
from millpond.core.model import Delete, Put, Ref
from millpond.core.timestamps import to_datetime
from millpond.sim import oracle
from millpond.sim.checks import Checks
from millpond.sim.facts import MENDED, PublishedMessage
from millpond.sim.instance import Instance
from millpond.sim.oracle import KIND_OF, KINDS
from millpond.sim.rules import Rules
from millpond.sim.store import Storehouse
from millpond.sim.virtual_time import WORLD

# The expiry of a store lags: an expired document stays for a while.
_SWEEP_EVERY_S = 600.0
# A letter is purged within the time of this many store calls: about as long as a burial takes.
_PURGED_WITHIN_CALLS = 12
# (topic, view) of views without a rule of adoption.
_ADOPT_NONE = (("doors", "doors"), ("gates", "gate_last"), ("gates", "gate_passes"))


class Operator:
    def __init__(
        self,
        seed: int,
        house: Storehouse,
        checks: Checks,
        rules: Rules,
        seen: Counter[str],
        pick: Callable[[random.Random], Instance | None],
        tell: Callable[[str], None],
    ) -> None:
        self._house = house
        self._checks = checks
        self._rules = rules
        self._seen = seen
        self._pick = pick
        self._tell = tell
        self._dice = random.Random(f"{seed}/operator")  # noqa: S311 - repeatable on purpose
        self._purging = random.Random(f"{seed}/purging")  # noqa: S311 - as above
        self.at_work = True

    def begin(self, legacy: list[PublishedMessage], until_s: float) -> None:
        """Schedule everything that happens before `until_s`."""
        for message in legacy:
            self._write_as_before(message)
        self._write_others()
        for _ in range(self._house.swarm.deletes):
            self._house.loop.call_at(self._dice.random() * until_s, self._delete_something, context=WORLD)
        for _ in range(self._house.swarm.replays):
            self._house.loop.call_at(self._dice.random() * until_s, self._replay_something, context=WORLD)
        if self._house.swarm.receipts_expire:
            self._house.loop.call_later(_SWEEP_EVERY_S, self._sweep, context=WORLD)

    def delete(self, ref: Ref) -> None:
        version = self._house.get(ref).version
        assert version is not None  # noqa: S101 - only what was listed is deleted
        self._house.commit([Delete(ref, version)])

    def letter_touched(self, ref: Ref) -> None:
        """A letter was stored, or its message was redelivered: perhaps purge it during the burial.

        Only a letter whose message can never succeed: all others must be there for the replay.
        """
        letter = self._house.get(ref).data
        if letter is None or not self.at_work or self._purging.random() >= self._house.swarm.purged:
            return
        flaw = self._checks.messages[letter["messageId"]].fact.flaw
        if flaw is not None and flaw not in MENDED:
            delay_s = self._purging.uniform(0.0, _PURGED_WITHIN_CALLS * self._house.swarm.latency_s)
            self._house.loop.call_later(delay_s, self._purge, ref, context=WORLD)

    def _purge(self, ref: Ref) -> None:
        instance = self._pick(self._purging)
        if instance is not None and self.at_work:
            self._seen["letter purged amid the faults"] += 1
            self._tell(f"{ref.id} is purged")
            instance.start(_purge(instance, ref))

    def _write_as_before(self, message: PublishedMessage) -> None:
        """A document as an earlier consumer left it: content and source of the message, and no stamp."""
        kind = next(kind for kind in KINDS if kind.topic == message.fact.topic)
        ref = Ref(kind.collection, kind.id_of(message))
        if oracle.is_late(message, kind) or self._house.get(ref).data is not None:
            return
        self._checks.add(message)
        source = {"messageId": message.id, "publishedAt": to_datetime(message.published_at)}
        self._house.commit([Put(ref, None, {**kind.fields_of(message), "source": source})])
        self._seen["document from before Millpond"] += 1

    def _write_others(self) -> None:
        """Documents of another program in collections of views that adopt none."""
        views = [view for topic, view in _ADOPT_NONE if topic in self._house.swarm.topics]
        for number in range(self._house.swarm.unowned if views else 0):
            ref = Ref(self._dice.choice(views), f"K{self._dice.randrange(self._house.swarm.keys)}")
            if ref not in self._checks.unowned:
                self._checks.unowned.add(ref)
                self._house.commit([Put(ref, None, {"by": "another program", "number": number})])
                self._seen["document of another program"] += 1

    def _delete_something(self) -> None:
        """Delete a document of a kind that redelivery restores completely."""
        found = [snapshot.ref for kind in KIND_OF if kind != "gate_last" for snapshot in self._house.all_of(kind)]
        found = [ref for ref in found if ref not in self._checks.unowned]
        if found and self.at_work:
            ref = self._dice.choice(found)
            self._seen["document deleted by a person"] += 1
            self._tell(f"{ref.path} is deleted")
            self._checks.deleted(ref)
            self.delete(ref)

    def _replay_something(self) -> None:
        letters = [snapshot.ref for snapshot in self._house.all_of(LETTERS)]
        instance = self._pick(self._dice)
        if letters and instance is not None and self.at_work:
            ref = self._dice.choice(letters)
            self._seen["letter replayed amid the faults"] += 1
            self._tell(f"{ref.id} is replayed")
            instance.start(_replay(instance, ref))

    def _sweep(self) -> None:
        self._house.loop.call_later(_SWEEP_EVERY_S, self._sweep, context=WORLD)
        self._seen["expired document removed"] += self._house.sweep(self._rules.now())


async def _replay(instance: Instance, ref: Ref) -> None:
    """Errors are ignored: the real command would print them, and the operator would try again later."""
    try:
        await instance.replay_letter(ref)
    except MillpondError:
        return


async def _purge(instance: Instance, ref: Ref) -> None:
    """As above."""
    try:
        await instance.letters.purge(ref)
    except MillpondError:
        return
