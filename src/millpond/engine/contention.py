"""What this instance knows of other writers: how many of its documents they change, and which ones just now.

No coordination: it learns from what it reads. While others change documents, cached ones are read before they are
written. One that another writer changes at the same time is contended: its messages wait in a lane (`lane`). It
does no I/O; the committer and the reader report to it, the room asks it.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.core.model import Ref

# Another writer changed the document at most this long after this instance last knew its version.
CONTENDED_WITHIN_S = 1.0
# A document stays contended for so long after that.
CONTENDED_FOR_S = 5.0
# With more of them, those that are contended no longer are dropped. It happens by itself if one is looked up.
_CONTENDED_MAX = 10_000
# Documents by which the share of changed ones is estimated.
_COMPARED = 100.0
_SHARE_MIN = 0.001
# While others change that share of the documents, batches are few and large: each costs a read as well.
_MANY = 0.1
# Read what is cached, before it is written, if so many of a batch's documents are expected to have changed.
_CHANGED_MAX = 0.4


class OtherWriters:
    def __init__(self) -> None:
        # The share of cached documents that turn out to have changed. 0 while no other writer is known.
        self.changed_share = 0.0
        # Contended documents, and until when.
        self.contended: dict[Ref, float] = {}

    def compared(self, documents: int, changed: int) -> None:
        """So many cached documents were compared with the store's; so many of them had changed."""
        if documents > 0 and (changed or self.changed_share):
            weight = min(documents / _COMPARED, 1.0)
            self.changed_share += (changed / documents - self.changed_share) * weight
            if self.changed_share < _SHARE_MIN:
                self.changed_share = 0.0

    @property
    def write_much(self) -> bool:
        """Whether others change a good part of the documents."""
        return self.changed_share > _MANY

    def distrusts(self, documents: int) -> bool:
        """Whether a commit based on so many cached documents would probably be refused."""
        return self.changed_share * documents > _CHANGED_MAX

    def contend(self, refs: Iterable[Ref], now: float) -> None:
        """Another writer changed these documents just now."""
        self.contended.update((ref, now + CONTENDED_FOR_S) for ref in refs)
        if len(self.contended) > _CONTENDED_MAX:
            self.contended = {ref: until for ref, until in self.contended.items() if until > now}

    def is_contended(self, refs: Iterable[Ref], now: float) -> bool:
        """Whether one of these documents is contended."""
        contended = self.contended
        for ref in refs:
            until = contended.get(ref)
            if until is not None:
                if until > now:
                    return True
                del contended[ref]
        return False
