"""Histories that are cut: the process dies at one step of the store, and another one goes on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention, Start, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import Alert, Silence
from monitor.model.errors import BusUnavailableError
from monitor.model.events import AlertEvent, RunEvent
from monitor.model.runs import Status
from tests.alerting.engine_scenario import EngineScenario, guard
from tests.alerting.related_runs import Family
from tests.clocks import ManualClock

RECEIVER = "receiver"
SETTINGS = AlertingSettings(
    rules=(
        default_rule(RuleKind.RUN_FAILED),
        default_rule(RuleKind.FAILING_REPEATEDLY),
        default_rule(RuleKind.WORKSPACE_UNREACHABLE),
    )
)


class Killed(BaseException):
    """The process is removed. Nothing of ours may catch it."""


class Cut(Struct, frozen=True):
    """At which step of the store something happens, and whether that step is taken all the same.

    The process dies, or, where it does not, the store says that it failed.
    """

    at: int
    is_taken: bool
    is_killed: bool = True


class CutBus:
    """A store that one step of many is not like the others for."""

    def __init__(self, bus: SqliteBus, cut: Cut | None) -> None:
        self._bus = bus
        self._cut = cut
        self._error: BaseException | None = None
        self.steps = 0

    def fail_next(self, *, is_taken: bool = True, error: BaseException | None = None) -> None:
        """Let the next step fail, by default as if the store took too long."""
        self._cut = Cut(at=self.steps + 1, is_taken=is_taken, is_killed=False)
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:
        self.steps += 1
        cut = self._cut if self._cut is not None and self._cut.at == self.steps else None
        if cut is None or cut.is_taken:
            await self._bus.advance(step, timeout_seconds=timeout_seconds)
        if cut is not None:
            failure = self._error or BusUnavailableError("it took too long")
            raise Killed if cut.is_killed else failure


class Scenario(Struct, frozen=True):
    """What happens outside: ends of runs by flow, answers, silences, and time."""

    what: str
    flow: int = 1
    seconds: float = 2.0


_REST = Scenario(
    "passes", seconds=61.0
)  # as long as a process waits for kinds of runs at its start


class Seen(Struct):
    """What a subscriber holds in the end."""

    ids: list[str]  # in the order of their first arrival
    contents: dict[str, set[str]]  # of each id
    words: list[str]
    states: dict[str, Alert]  # by fingerprint, as a retained message shows them
    steps: int


class Play:
    """One history with one cut."""

    def __init__(self, bus: SqliteBus, clock: ManualClock, cut_bus: CutBus) -> None:
        self.cut_bus = cut_bus
        self.engine_scenario = EngineScenario(bus, clock, SETTINGS)
        self.clock = clock
        self.position = 0
        self.heard: list[AlertEvent] = []
        self.claimed: RunEvent | None = None
        self.family: Family | None = None
        self.engine = self._process()

    def _process(self) -> Engine:
        return Engine(
            bus=self.cut_bus,
            view=self.engine_scenario.live_state.view,
            clock=self.clock,
            settings=SETTINGS,
            retention=Retention(),
            guard=guard,
        )

    async def begin(self) -> None:
        self.engine_scenario.answers(well=True)
        self.position = await self.cut_bus.subscribe(RECEIVER, start=Start.NEWEST)
        await self._in_a_process(self.engine.restore)
        await self._in_a_process(self._settle)

    async def show(self, scenario: Scenario) -> None:
        """Let something happen outside, and the process do what it does then."""
        if scenario.what == "fails":
            await self.engine_scenario.end_run(scenario.flow, Status.FAILED)
        elif scenario.what == "had failed":
            await self.engine_scenario.had_failed(scenario.flow)
        elif scenario.what == "succeeds":
            await self.engine_scenario.end_run(scenario.flow, Status.SUCCEEDED)
        elif scenario.what == "failed before":
            await self.engine_scenario.end_run_before(scenario.flow, Status.FAILED, seconds=1_000)
        elif scenario.what in ("is claimed to fail", "is corrected"):
            await self._show_callback(scenario)
        elif scenario.what in ("part fails", "plan fails", "link", "part succeeds"):
            await self._show_plan(scenario.what)
        elif scenario.what in ("answers", "is silent"):
            self.engine_scenario.answers(well=scenario.what == "answers")
        elif scenario.what == "silence":
            await self._in_a_process(lambda: self.engine.add_silence(self._silence()))
        elif scenario.what == "expire":
            await self._in_a_process(lambda: self.engine.expire_silence("quiet"))
        await self.clock.advance(scenario.seconds)
        await self._in_a_process(self._settle)

    async def _show_callback(self, scenario: Scenario) -> None:
        if scenario.what == "is claimed to fail":
            self.claimed = await self.engine_scenario.claim(scenario.flow, Status.FAILED)
        elif self.claimed is not None:
            claimed, self.claimed = self.claimed, None
            await self.engine_scenario.correct(claimed, Status.SUCCEEDED)

    async def _show_plan(self, what: str) -> None:
        self.family = self.family or Family(self.engine_scenario)
        if what == "part fails":
            await self.family.child_ends()
        elif what == "plan fails":
            await self.family.plan_ends()
        elif what == "part succeeds":
            await Family(self.engine_scenario, number=2).child_ends(Status.SUCCEEDED)
        else:
            await self.family.link()

    def _silence(self) -> Silence:
        now = self.clock.now()
        return Silence(
            id="quiet",
            matchers=("pipeline_id=1",),
            author="ann",
            comment="",
            starts_at=now,
            ends_at=now + timedelta(hours=1),
            origin="api",
        )

    async def _settle(self) -> None:
        while await self.engine.take_some():
            pass
        await self.engine.evaluate()
        await self._receive()

    async def _receive(self) -> None:
        """Do as an output does: hand on, and only then note how far that was."""
        while batch := await self.cut_bus.events(after=self.position, limit=100):
            self.heard += [
                recorded.event for recorded in batch if isinstance(recorded.event, AlertEvent)
            ]
            step = Step(consumer=RECEIVER, position=batch[-1].position)
            await self.cut_bus.advance(step, timeout_seconds=10)
            self.position = batch[-1].position

    async def _in_a_process(self, act: Any) -> None:
        """Do it; where the process dies, another one takes its place, and it is done again."""
        try:
            await act()
        except (Killed, BusUnavailableError) as exc:
            if isinstance(exc, Killed):
                self.engine = self._process()
            self.position = await self.cut_bus.subscribe(RECEIVER, start=Start.NEWEST)
            await self.engine.restore()
            await (act() if act.__name__ != "restore" else self._settle())

    def seen(self) -> Seen:
        contents: dict[str, set[str]] = {}
        for event in self.heard:
            contents.setdefault(event.id, set()).add(repr(event))
        return Seen(
            ids=list(contents),
            contents=contents,
            words=[f"{other_event.alert.name} {other_event.type}" for other_event in self.heard],
            # A retained message does not say when people were notified, which a crash puts off.
            states={
                alert.fingerprint: msgspec.structs.replace(alert, notified_at=None)
                for alert in self.engine.snapshot().alerts
            },
            steps=self.cut_bus.steps,
        )


async def played(store: Path, history: Sequence[Scenario], cut: Cut | None = None) -> Seen:
    """Return what is seen of a history that is cut at a step, or not at all."""
    clock = ManualClock()
    bus = await SqliteBus.open(store, clock=clock, registry=CollectorRegistry())
    try:
        play = Play(bus, clock, CutBus(bus, cut))
        await play.begin()
        # A restarted process evaluates once more, so the history ends where that changes nothing.
        for scenario in (*history, _REST, _REST):
            await play.show(scenario)
        return play.seen()
    finally:
        await bus.close()
