"""Which letters a filter selects, and in which of the three replay states each letter is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.core import timestamps
from millpond.core.model import Outcome, Ref, Result
from millpond.core.time_range import ALL_TIME, TimeRange
from millpond.dead_letters.filter import REPLAYED, LetterFilter, ReplayState, only, state_of
from tests.common.faulty_store import FaultyStore
from tests.common.pond import delivery
from tests.common.properties import examples
from tests.common.rig import Bench

NOON = 1_767_873_600_000_000
HOUR_US = 3_600_000_000
NEVER, SUCCEEDED, FAILED = ReplayState.NEVER, ReplayState.SUCCEEDED, ReplayState.FAILED
BURIED = {"reason": "invalid_event", "view": None, "topic": "ticks", "replays": 0}
# What StoredLetters writes, what older builds and people wrote, and what no build writes.
STATES: dict[str, tuple[dict[str, Any], ReplayState]] = {
    "just buried": ({"replays": 0}, NEVER),
    "without any field of a replay": ({}, NEVER),
    "null fields": ({"replays": None, "replayOutcome": None}, NEVER),
    "applied": ({"replays": 1, "replayOutcome": "applied"}, SUCCEEDED),
    "duplicate": ({"replays": 2, "replayOutcome": "duplicate"}, SUCCEEDED),
    "stale": ({"replays": 1, "replayOutcome": "stale_ignored"}, SUCCEEDED),
    "too old": ({"replays": 1, "replayOutcome": "too_old_ignored"}, SUCCEEDED),
    "filtered": ({"replays": 1, "replayOutcome": "filtered"}, SUCCEEDED),
    "an outcome without a count": ({"replayOutcome": "applied"}, SUCCEEDED),
    "poison again": ({"replays": 3, "replayOutcome": "poison"}, FAILED),
    "retry, which is no longer noted": ({"replays": 1, "replayOutcome": "retry"}, FAILED),
    "a count without an outcome": ({"replays": 1}, FAILED),
    "an outcome of a newer build": ({"replays": 1, "replayOutcome": "put_aside"}, FAILED),
    "no outcome at all": ({"replays": 1, "replayOutcome": ""}, FAILED),
    "an outcome that is no text": ({"replays": 1, "replayOutcome": ["applied"]}, FAILED),
}
LETTERS: dict[str, dict[str, Any]] = {
    "never": BURIED,
    "applied": {**BURIED, "replays": 1, "replayOutcome": "applied"},
    "poison": {**BURIED, "replays": 1, "replayOutcome": "poison"},
    "bug": {**BURIED, "reason": "view_error", "view": "boxes", "topic": "boxes"},
    "lost": {**BURIED, "reason": "unroutable_payload", "topic": "", "replays": 2, "replayOutcome": "poison"},
    "bare": {},
}


@pytest.mark.parametrize(("letter", "state"), STATES.values(), ids=STATES)
def test_the_state_of_a_letter(letter: dict[str, Any], state: ReplayState) -> None:
    """Only an outcome that is known to settle a message counts as success."""
    assert state_of(letter) is state


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (LetterFilter(), "never applied poison bug lost bare"),
        (LetterFilter(reason="invalid_event"), "never applied poison"),
        (LetterFilter(reason=""), ""),
        (LetterFilter(topic="ticks"), "never applied poison"),
        (LetterFilter(topic=""), "lost bare"),
        (LetterFilter(view="boxes"), "bug"),
        (LetterFilter(view=""), "never applied poison lost bare"),
        (LetterFilter(states=only(NEVER)), "never bug bare"),
        (LetterFilter(states=only(SUCCEEDED)), "applied"),
        (LetterFilter(states=only(FAILED)), "poison lost"),
        (LetterFilter(states=only(REPLAYED["yes"])), "applied"),
        (LetterFilter(states=only(REPLAYED["no"])), "never bug bare"),
        (LetterFilter(states=only(FAILED), topic="ticks"), "poison"),
        (LetterFilter(states=only(SUCCEEDED), topic=""), ""),
        (LetterFilter(states=only(NEVER) | only(FAILED)), "never poison bug lost bare"),
        (LetterFilter(states=only(NEVER) & only(FAILED)), ""),
    ],
)
def test_letters_that_match(wanted: LetterFilter, found: str) -> None:
    """By equality, all conditions together; a missing view or topic is the empty text."""
    assert [name for name, letter in LETTERS.items() if wanted.matches(letter)] == found.split()


@pytest.mark.parametrize(
    ("buried", "found"),
    [
        (TimeRange(NOON), "at noon, later"),
        (TimeRange(None, NOON), "before"),
        (TimeRange(NOON, NOON + 1), "at noon"),
        (TimeRange(NOON + 2 * HOUR_US), ""),
        (ALL_TIME, "before, at noon, later, odd, bare"),
    ],
)
def test_letters_buried_in_a_range(buried: TimeRange, found: str) -> None:
    """From its beginning on and before its end; a letter without the time of its burial is in no bounded range."""
    times = {"before": NOON - HOUR_US, "at noon": NOON, "later": NOON + HOUR_US}
    letters = {name: {**BURIED, "buriedAt": timestamps.to_datetime(us)} for name, us in times.items()}
    letters |= {"odd": {**BURIED, "buriedAt": "noon"}, "bare": {}}
    matching = [name for name, letter in letters.items() if LetterFilter(buried=buried).matches(letter)]
    assert ", ".join(matching) == found


_ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
_LETTERS = st.fixed_dictionaries(
    {},
    optional={
        "replays": st.integers(0, 3) | _ANYTHING,
        "replayOutcome": st.sampled_from([str(outcome) for outcome in Outcome]) | _ANYTHING,
        "reason": st.text(max_size=5),
    },
)


@examples(300)
@given(_LETTERS)
def test_each_letter_is_in_exactly_one_state(letter: dict[str, Any]) -> None:
    """Whatever it holds. The three filters divide the letters, and success has an outcome that says so."""
    states = [state for state in ReplayState if LetterFilter(states=only(state)).matches(letter)]
    assert states == [state_of(letter)]
    settling = {str(outcome) for outcome in Outcome} - {"poison", "retry"}
    outcome = letter.get("replayOutcome")
    assert (states == [SUCCEEDED]) == (isinstance(outcome, str) and outcome in settling)


@pytest.mark.parametrize("outcome", Outcome)
async def test_the_state_after_a_replay(outcome: Outcome) -> None:
    """The last replay that came to an end decides, whatever earlier ones led to; `retry` is no end."""
    bench = Bench(FaultyStore())
    await bench.send(delivery({"nothing": 1}, "m1"))
    letters, ref = bench.service.letters, Ref("dead_letters", "s__m1")

    async def state_after(led_to: Outcome) -> ReplayState:
        async def send(_: Any, __: Any) -> Result:
            return Result(led_to, str(led_to), buried=led_to is Outcome.POISON)

        await letters.replay(ref, send)
        (snapshot,) = await bench.store.read([ref])
        return state_of(snapshot.data or {})

    expected = {Outcome.RETRY: NEVER, Outcome.POISON: FAILED}.get(outcome, SUCCEEDED)
    assert await state_after(outcome) is expected
    assert await state_after(Outcome.POISON) is FAILED
    assert await state_after(Outcome.RETRY) is FAILED
    assert await state_after(Outcome.DUPLICATE) is SUCCEEDED
    await bench.service.close()


async def test_a_purge_can_be_bound_to_a_state() -> None:
    """A letter whose state changed since it was selected stays."""
    bench = Bench(FaultyStore())
    await bench.send(delivery({"nothing": 1}, "m1"))
    letters, ref = bench.service.letters, Ref("dead_letters", "s__m1")
    assert not await letters.purge(ref, LetterFilter(states=only(SUCCEEDED)))
    assert not await letters.purge(ref, LetterFilter(states=only(FAILED)))
    assert await letters.open_letter(ref) is not None
    assert await letters.purge(ref, LetterFilter(states=only(NEVER)))
    assert await letters.open_letter(ref) is None
    await bench.service.close()
