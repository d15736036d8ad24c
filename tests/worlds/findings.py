"""What the judge may find, and the figures of many worlds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from tests.worlds.script import World


class Kind(StrEnum):
    """What disagrees with the truth."""

    FALSE_GREEN = "false green"  # something fails, and no alert is active
    FALSE_RED = "false red"  # an alert is active about something that does not fail
    BLIND = "blind but green"  # what cannot be followed is shown as known, or no alert says so
    FIRED_AGAIN = "fired again"  # an alert resolved, and fired again with the same start
    MISSED = "missed starts"  # a schedule's alert is missing, or about a start that came
    DEADLINES = "deadlines"  # met or missed, reported wrongly, twice, at a wrong time or not
    WRONG_START = "wrong start"  # an alert starts at another time than its oldest open failure
    WRONG_SUBJECT = "wrong subject"  # an alert about a part of a run that was known as its root
    WRONG_MARK = "wrong mark"  # of an alert that was over when it was seen
    SILENCE = "unexplained silence"  # a failure is in no alert, and `explain` has no reason
    DENIAL = "denial"  # a failure is evidence of an alert, and `explain` denies it
    NO_REASON = "missing reason"  # a failure whose error is readable is shown without it
    NO_LINK = "missing link"  # a part of a plan run that names it is not linked to it
    EVENTS = "events of runs"  # missing, repeated, out of order, late, or with another end
    NOTIFICATIONS = "notifications"  # an Alertmanager has other alerts than the daemon
    GAUGES = "states and metrics"  # retained states, metrics or page data disagree


class Finding(Struct, frozen=True, kw_only=True):
    """One disagreement in one world."""

    seed: int
    kind: Kind
    text: str

    def line(self) -> str:
        return f"seed {self.seed}: {self.kind}: {self.text}"


class Figures(Struct, frozen=True, kw_only=True):
    """How many worlds were played, and what was found in them."""

    worlds: tuple[World, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def together(cls, parts: Iterable[Figures]) -> Figures:
        """Return the figures of several batches as one."""
        parts = list(parts)
        return cls(
            worlds=tuple(world for part in parts for world in part.worlds),
            findings=tuple(finding for part in parts for finding in part.findings),
        )

    def summary(self) -> str:
        """Return one line with every kind of finding and its seeds."""
        counted = Counter(finding.kind for finding in self.findings)
        runs = sum(
            len(world.job_groups) + len(world.flow_runs) + len(world.plan_runs)
            for world in self.worlds
        )
        kinds = ", ".join(f"{counted[kind]} {kind}" for kind in Kind)
        seeds = sorted({finding.seed for finding in self.findings})
        failing = f"; failing seeds {' '.join(map(str, seeds))}" if seeds else ""
        return f"{len(self.worlds)} worlds, {runs} runs: {kinds}{failing}"

    def lines(self) -> list[str]:
        """Return the findings, each failing world with its ingredients above them."""
        lines: list[str] = []
        for world in self.worlds:
            own = [finding for finding in self.findings if finding.seed == world.seed]
            if own:
                lines += [world.describe(), *(f"  {finding.line()}" for finding in own)]
        return lines
