"""Results with more connections than the waiting room holds. Pure data."""

from __future__ import annotations

import statistics

import msgspec

from benchmarks.checks import CONNECTIONS, Check

# Connections that send the next message directly after any answer, without a pause.
CROWDS = (200, 500, 1_000)
GOODPUT_MIN = 0.95
SLOW_GOODPUT_MIN = 0.80
POLITE, GREEDY = 16, 400
POLITE_SHARE_MIN = 0.5


class Goodput(msgspec.Struct):
    """One round of wrk. `ok` are acknowledged messages, `refused` everything else."""

    connections: int
    seconds: float
    ok: int
    refused: int
    p99_ms: float
    server_us_per_message: float

    @property
    def per_second(self) -> float:
        return self.ok / self.seconds


class Sharing(msgspec.Struct):
    """Polite clients, which wait as long as Retry-After says, beside greedy ones."""

    polite_ok: int
    greedy_ok: int

    @property
    def share(self) -> float:
        """The polite clients' messages, relative to an equal share for every connection."""
        fair = (self.polite_ok + self.greedy_ok) * POLITE / (POLITE + GREEDY)
        return self.polite_ok / fair if fair else 0.0


class Overload(msgspec.Struct):
    rounds: list[Goodput]
    # On a store whose commits take 50 ms: with the default queue, and with one that has room for all connections.
    slow: list[Goodput]
    slow_with_room: list[Goodput]
    sharing: list[Sharing]

    def of(self, connections: int) -> list[Goodput]:
        return [found for found in self.rounds if found.connections == connections]

    def ratios(self, connections: int) -> list[float]:
        """Against the usual number of connections, round by round: each pair is measured seconds apart."""
        pairs = zip(self.of(connections), self.of(CONNECTIONS), strict=True)
        return [crowd.per_second / usual.per_second for crowd, usual in pairs]

    def ratio(self, connections: int) -> float:
        return float(statistics.median(self.ratios(connections)))

    @property
    def slow_ratio(self) -> float:
        pairs = zip(self.slow, self.slow_with_room, strict=True)
        return float(statistics.median(slow.per_second / roomy.per_second for slow, roomy in pairs))

    @property
    def polite_share(self) -> float:
        return float(statistics.median(found.share for found in self.sharing))

    def checks(self) -> list[Check]:
        goodput = [
            Check(
                f"goodput at {crowd:,} connections / {CONNECTIONS}",
                f"≥ {GOODPUT_MIN}",
                f"{self.ratio(crowd):.3f}",
                self.ratio(crowd) >= GOODPUT_MIN,
            )
            for crowd in CROWDS
        ]
        slow = Check(
            f"goodput at {CROWDS[-1]:,} connections and 50 ms a commit / with room for all",
            f"≥ {SLOW_GOODPUT_MIN}",
            f"{self.slow_ratio:.3f}",
            self.slow_ratio >= SLOW_GOODPUT_MIN,
        )
        polite = Check(
            f"{POLITE} polite clients beside {GREEDY} greedy ones, of their fair share",
            f"≥ {POLITE_SHARE_MIN}",
            f"{self.polite_share:.2f}",
            self.polite_share >= POLITE_SHARE_MIN,
        )
        return [*goodput, slow, polite]
