"""A world in the making: its source of chance, its ids and what it has so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.worlds.impairments import ClockSet, Hiding, ShortList, Span, Withdrawal
from tests.worlds.script import (
    NEVER,
    Callback,
    Deadline,
    End,
    FlowRun,
    Ingredient,
    JobGroup,
    Pipeline,
    PlanRun,
    Schedule,
    Times,
)

SCRIPT_SECONDS = 330.0  # no run is created later
_LATE_SECONDS = (20.0, 90.0)
_ABSENT = (Times.NO_JOB_ENDS, Times.NO_JOBS, Times.NO_LAST_WRITE, Times.NONE)


@dataclass(kw_only=True)
class Draft:
    """What the files of the generator add to, in their order."""

    seed: int
    random: Random
    ingredients: frozenset[Ingredient]
    flows: list[Pipeline] = field(default_factory=list)
    plans: list[Pipeline] = field(default_factory=list)
    job_groups: list[JobGroup] = field(default_factory=list)
    flow_runs: list[FlowRun] = field(default_factory=list)
    plan_runs: list[PlanRun] = field(default_factory=list)
    callbacks: list[Callback] = field(default_factory=list)
    outages: list[Span] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    withdrawals: list[Withdrawal] = field(default_factory=list)
    short_lists: list[ShortList] = field(default_factory=list)
    hidings: list[Hiding] = field(default_factory=list)
    deadlines: list[Deadline] = field(default_factory=list)
    page_cap: int | None = None
    other_person_from: float = NEVER
    workspace_clock_set: ClockSet | None = None
    ids: int = 0

    def begin(self, part: str) -> None:
        """Take chance again for a part of the world: it stays the same if others are left out."""
        self.random = Random(f"world {self.seed}: {part}")  # noqa: S311 - a reproducible world

    def has(self, ingredient: Ingredient) -> bool:
        return ingredient in self.ingredients

    def new_id(self) -> int:
        """Return an id that no other object of any world of the batch has."""
        self.ids += 1
        return (self.seed % 1_000_000) * 1_000 + self.ids

    def between(self, low: float, high: float) -> float:
        return round(self.random.uniform(low, high), 3)

    def happens(self, share: float) -> bool:
        return self.random.random() < share

    def end(self) -> End:
        if self.has(Ingredient.CANCELS) and self.happens(0.25):
            return End.CANCELED
        return self.random.choice((End.COMPLETE, End.FAILED))

    def times(self) -> Times:
        is_absent = self.has(Ingredient.ABSENT_TIMES) and self.happens(0.6)
        return self.random.choice(_ABSENT) if is_absent else Times.ALL

    def shown(self, created: float, ended: float) -> tuple[float, float]:
        """Return from when on a run and its end are shown."""
        late = self.between(*_LATE_SECONDS)
        if self.has(Ingredient.LATE_ROWS) and self.happens(0.35):
            return round(ended + late, 3), round(ended + late, 3)
        if self.has(Ingredient.LATE_ENDS) and self.happens(0.35):
            return created, round(ended + late, 3)
        return created, ended

    def starts(self, *, most: int, shortest: float = 8.0) -> list[tuple[float, float]]:
        """Return when runs of one pipeline are created and end, in the order of creation."""
        spans: list[tuple[float, float]] = []
        created = self.between(5, 40)
        while created < SCRIPT_SECONDS and len(spans) < most:
            length = self.between(shortest, shortest * 3)
            if self.has(Ingredient.OVERLAPS):
                length = self.between(shortest, shortest * 8)
            ended = round(created + length, 3)
            spans.append((created, ended))
            created = ended + self.between(4, 45)
            if self.has(Ingredient.OVERLAPS) and self.happens(0.7):
                created = spans[-1][0] + self.between(2, 30)
            created = round(created, 3)
        return spans
