"""From the rounds of the way to the subscriber to its figures, and what they are to reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from tests.bench.figures import Figure, ratios
from tests.bench.load import Report

OURS, BRIDGE, NODE_RED = "ours", "bridge", "Node-RED"
_PROCESSOR_TIMES = 2.0  # the bridge's, at each rate
_P50_TIMES = 3.0  # the bridge's, at each rate
_P99_TIMES = 1.0  # Node-RED's,
_P99_RATES = (200.0, 1_000.0)  # at these
_SATURATED_TIMES = 1.3  # Node-RED's
_COMMITS = 1.1  # for a callback
_COMMITS_RATE = 100.0  # at which nearly every callback comes alone


class Pace(Struct, frozen=True, kw_only=True):
    """How callbacks are sent in one round."""

    per_second: float  # 0: each as soon as one is answered
    seconds: float
    saturating: int = 0  # callbacks, where there is no rate
    is_core_busy: bool = False  # one, with something else
    is_kept: bool = True  # False: a new connection for each callback
    is_beside_node_red: bool = True

    @property
    def callbacks(self) -> int:
        return self.saturating or int(self.per_second * self.seconds)

    def warm_up(self) -> Pace:
        """Return a quarter of it."""
        return msgspec.structs.replace(
            self, seconds=self.seconds / 4, saturating=self.saturating // 4
        )

    @property
    def name(self) -> str:
        rate = f"{self.per_second:,.0f}/s" if self.per_second else "saturated"
        beside = ", one core busy" if self.is_core_busy else ""
        return f"{rate}{beside}" if self.is_kept else f"{rate}, a connection each{beside}"


class Round(Struct, frozen=True, kw_only=True):
    """One side, once."""

    report: Report
    processor_ms: float  # for a callback
    commits: float = 0.0  # for a callback; of ours

    def with_commits(self, commits: float) -> Round:
        return msgspec.structs.replace(self, commits=commits)


Rounds = dict[Pace, dict[str, list[Round]]]


def figures_of(rounds: Rounds) -> list[Figure]:
    """Return each side's figures at each pace, and after them ours over the others'."""
    return [
        figure
        for pace, sides in rounds.items()
        for figure in (_at_rate(pace, sides) if pace.per_second else _saturated(pace, sides))
    ]


def _at_rate(pace: Pace, sides: Mapping[str, Sequence[Round]]) -> Iterator[Figure]:
    # With a core busy or new connections, only what was measured: no target is about it.
    is_judged = not pace.is_core_busy and pace.is_kept
    kinds: tuple[tuple[str, str, float | None, Callable[[Round], float]], ...] = (
        ("processor time", BRIDGE, _PROCESSOR_TIMES, lambda it: it.processor_ms),
        ("p50", BRIDGE, _P50_TIMES, lambda it: it.report.arrival_p50),
        (
            "p99",
            NODE_RED,
            _P99_TIMES if pace.per_second in _P99_RATES else None,
            lambda it: it.report.arrival_p99,
        ),
    )
    for what, other, target, value_of in kinds:
        by_side = {
            side: Figure(
                name=f"{pace.name}: {what}, {side}", values=tuple(map(value_of, rounds)), unit="ms"
            )
            for side, rounds in sides.items()
        }
        yield from by_side.values()
        if other in by_side:
            theirs = "the bridge's" if other == BRIDGE else f"{other}'s"
            name = f"{pace.name}: {what}, {OURS} over {theirs}"
            yield ratios(name, by_side[OURS], by_side[other], target=target if is_judged else None)
    yield Figure(
        name=f"{pace.name}: commits for a callback",
        values=tuple(measured.commits for measured in sides[OURS]),
        target=_COMMITS if is_judged and pace.per_second == _COMMITS_RATE else None,
    )


def _saturated(pace: Pace, sides: Mapping[str, Sequence[Round]]) -> Iterator[Figure]:
    by_side = {
        side: Figure(
            name=f"{pace.name}: at the subscriber, {side}",
            values=tuple(measured.report.arrived_per_second for measured in rounds),
            unit="/s",
            better="higher",
        )
        for side, rounds in sides.items()
    }
    yield from by_side.values()
    if NODE_RED in by_side:
        name = f"{pace.name}: {OURS} over {NODE_RED}'s"
        yield ratios(name, by_side[OURS], by_side[NODE_RED], target=_SATURATED_TIMES)
