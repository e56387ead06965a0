"""Names made of ids that users choose: no two runs or steps ever share one."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from millpond.flow.artifact_paths import NAME_CHARS_MAX, folder_name
from millpond.flow.run_document import idempotency_key
from tests.common.properties import examples

IDS = ["", "a", "a+b", "a%2Bb", "a%252Bb", "b", "b+c", "%", "%25", ".", "..", "a/b", "A", "é", "a" * 500, "a" * 501]
ANY_ID = st.text(st.sampled_from("a+%2B5./~"), max_size=8)


def test_keys_of_different_steps_differ() -> None:
    """A step's work is done once by this key: two steps that shared one would lose one's work."""
    keys = [idempotency_key(run_id, step_id) for run_id in IDS for step_id in IDS]
    assert len(set(keys)) == len(IDS) ** 2


@examples(200)
@given(ANY_ID, ANY_ID, ANY_ID, ANY_ID)
def test_any_two_keys_differ(run: str, step: str, other_run: str, other_step: str) -> None:
    """Also if ids hold what stands between them, or what that is escaped by."""
    same = idempotency_key(run, step) == idempotency_key(other_run, other_step)
    assert same == ((run, step) == (other_run, other_step))


def test_folders_of_different_ids_differ() -> None:
    """Long ids that begin alike, too; and every file system takes them, as one name below the folder."""
    long = "run-" * 100
    ids = [*IDS, long, long + "1", long + "2", "é" * 100, "é" * 101]
    names = {any_id: folder_name(any_id) for any_id in ids}
    for one, other in combinations(ids, 2):
        assert names[one] != names[other], (one, other)
    for name in names.values():
        assert 0 < len(name.encode()) <= NAME_CHARS_MAX
        assert not name.startswith(".")
        assert "/" not in name
