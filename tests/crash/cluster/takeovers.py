"""Who held what when, and how long it took until another one went on with it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.crash.cluster.database import LeaseChange
from tests.crash.cluster.member import Absence
from tests.crash.cluster.scenario import Cluster


class Holders:
    """Who held which shard at any instant."""

    def __init__(self, changes: Sequence[LeaseChange]) -> None:
        self._changes: defaultdict[str, list[LeaseChange]] = defaultdict(list)
        for change in changes:
            self._changes[change.shard].append(change)

    def of(self, shard: str, *, since: float, until: float) -> set[str | None]:
        """Return everybody who held the shard at any time between two instants."""
        changes = self._changes[shard]
        first = max(bisect_right(changes, since, key=lambda change: change.at) - 1, 0)
        last = max(bisect_right(changes, until, key=lambda change: change.at), 1)
        return {change.holder for change in changes[first:last]}

    def taken_over(self, absence: Absence) -> list[LeaseChange]:
        """Return how each shard that a daemon held when it fell silent got another holder."""
        return [
            next(
                change for change in changes if change.at > absence.at and change.holder is not None
            )
            for changes in self._changes.values()
            if self.of(changes[0].shard, since=absence.at, until=absence.at) == {absence.daemon}
            and changes[-1].at > absence.at
        ]


def claims(scenario: Cluster, holders: Holders) -> Iterator[float]:
    """Yield the seconds from each absence until another daemon had a shard of it."""
    for absence, change in _taken_over(scenario, holders):
        yield change.at - absence.at


def takeovers(scenario: Cluster, holders: Holders) -> Iterator[float]:
    """Yield the seconds until the new holder published, where no other fault came before."""
    for absence, change in _taken_over(scenario, holders):
        next_fault_at = next((at for at in scenario.faults_at if at > absence.at), float("inf"))
        published_at = next(
            (
                state.at
                for state in scenario.broker_watch.published
                if state.shard == change.shard and state.at >= change.at
            ),
            float("inf"),
        )
        if published_at < next_fault_at:
            yield published_at - absence.at


def _taken_over(scenario: Cluster, holders: Holders) -> Iterator[tuple[Absence, LeaseChange]]:
    for member in scenario.members:
        for absence in member.absences:
            for change in holders.taken_over(absence):
                yield absence, change


def quantiles(seconds: Sequence[float]) -> str:
    """Return count, median and most of some seconds as text."""
    if not seconds:
        return "0"
    ordered = sorted(seconds)
    middle, most = ordered[len(ordered) // 2], ordered[-1]
    return f"{len(ordered)} (median {middle:.1f} s, most {most:.1f} s)"
