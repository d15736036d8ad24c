"""The scenario of the demo: a calm workspace with a week of history, in which three things fail.

One pipeline fails and says why, one start is missed, one run is slow. They fire one alert each;
everything else ends well, at a calm pace.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from monitor.cli.demo_output import TIE
from monitor.model.triggers import CronTrigger, DailyTrigger, ScheduleTrigger
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import TrafficSettings
from monitor.sandbox.world.records.objects import Flow, Plan, PlanNode, Schedule
from monitor.sandbox.world.records.runs import RanFor, RanFrom
from monitor.sandbox.world.seeding.flows import add_flow, add_schedule

_PAST = timedelta(days=7)
_CALM = timedelta(hours=6)  # before the present nothing has failed
_MADE = timedelta(days=60)  # ago, flows and schedules of the story
# In the past people started little; of the present `DemoScenario.run` decides.
_PEOPLE = TrafficSettings(
    flow_runs_per_hour=0.4, plan_runs_per_hour=0.2, job_groups_per_hour=0.5, samples_per_hour=0.2
)
_NO_PEOPLE = TrafficSettings(
    flow_runs_per_hour=0, plan_runs_per_hour=0, job_groups_per_hour=0, samples_per_hour=0
)
# By the name of the schedule; the others are calm as they are. What happened on the last day is
# read when the daemon starts: each flow run by its id, within the request budget.
_SCHEDULES: dict[str, ScheduleTrigger] = {
    "Sensors, often": CronTrigger(expression="0 5 0/6 * * ?"),
    "Clicks every ten minutes": CronTrigger(expression="0 40 0/6 * * ?"),
    "Stock, hourly": CronTrigger(expression="0 15 0/6 * * ?"),
    "Sensors plan": CronTrigger(expression="0 20 0/6 * * ?"),
}
_NAMES = {
    "Clicks every ten minutes": "Clicks",
    "Stock, hourly": "Stock",
    "Sensors, often": "Sensors",
}
_FAILS_SOMETIMES, _FAILURE_RATIO = "Sensor feed", 0.03

_PIPELINES = _FAILING, _MISSED, _SLOW = "Supplier invoices", "Price list", "Demand forecast"
_ERROR = "Column 'amount' could not be converted to Decimal: '1.204,50 EUR' in row 1048"
_QUICK_SECONDS = 3.0
_SLOW_USUALLY_SECONDS, _SLOW_SINCE = 240.0, timedelta(minutes=31)
OVERDUE_SECONDS = 600.0  # of the demo's rule, whatever is learned
_OF_LATE = 12  # runs: those of a day
_SLOW_SECONDS = 70 * 60.0  # with less than a quarter of an hour between two heartbeats
MISSED_GRACE_SECONDS = 30.0  # of the demo's rule; its users do not wait for ten minutes
_MISSED_AFTER = timedelta(seconds=30)  # at least: the daemon must know the schedule before
_FAILING_AGAIN = timedelta(minutes=5)
# What starts in turn, and how long after the one before. Each kind of run comes early.
_GAP_SECONDS, _FIRST_GAP_SECONDS, _AT_ONCE = 15.0, 0.5, 3
_TURNS = (
    ("plan", "Sensors"),
    ("flow", "Web clicks"),
    ("recipe", "Clean sales"),
    ("flow", "Marketing spend"),
    ("flow", "Inventory"),
    ("recipe", "Contacts"),
    ("plan", "Nightly load"),
    ("sample", "Stock"),
    ("flow", "Customer 360"),
    ("flow", "Daily sales"),
)
_USUAL_SPEED = 60.0


@dataclass(slots=True)
class _Troubles:
    """When what goes wrong begins, where the edition shows it."""

    missed_at: datetime | None = None
    slow_since: datetime | None = None
    usually_minutes: float = 0.0


class DemoScenario:
    """Prepares a sandbox that has not started, and starts what runs in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._world = sandbox.world
        self._speed = sandbox.settings.work.speed
        self._administrator_id = next(self._world.people.live()).id
        self._troubles = _Troubles()

    def prepare(self) -> None:
        """Let the past week happen, up to what is wrong now."""
        now = self._world.clock.now()
        for flow in self._world.flows.live():
            flow.failure_ratio = _FAILURE_RATIO if flow.name == _FAILS_SOMETIMES else 0.0
            if flow.name in ("Sensor feed", "Web clicks"):
                flow.usual_seconds = _QUICK_SECONDS * self._speed
        for schedule in self._world.schedules.live():
            if schedule.name in _SCHEDULES:
                schedule.triggers = (_SCHEDULES[schedule.name],)
                schedule.name = _NAMES.get(schedule.name, schedule.name)
        failing = self._add_flow(_FAILING, _QUICK_SECONDS)
        missed = self._add_flow(_MISSED, _QUICK_SECONDS)
        slow = self._add_flow(f"{_SLOW}: model", _SLOW_USUALLY_SECONDS)
        if len(self._world.schedules):
            again = now + _FAILING_AGAIN
            self._schedule(failing, _every(6, again))
            self._troubles.missed_at = at = _next_minute(now + _MISSED_AFTER)
            daily = DailyTrigger(hour_of_day=at.hour, minute_of_hour=at.minute)
            self._schedule(missed, daily).is_skipped = True
        slow_at = (now - _SLOW_SINCE).replace(second=0, microsecond=0)
        if len(self._world.plans):
            self._troubles.slow_since = slow_at
            self._schedule(self._plan_of(slow), _every(2, slow_at))
        self._live_through_the_week(now, slow, slow_at)
        order = Order(
            count=1_000_000,
            flow_id=failing.id,
            outcome=Outcome.FAILED,
            work_seconds=_QUICK_SECONDS * self._speed,
            error_message=_ERROR,
        )
        self._sandbox.engine.order(order)

    async def run(self) -> None:
        """Start what fails, then one healthy run after the other, until cancelled."""
        gap_seconds = _GAP_SECONDS * max(1.0, _USUAL_SPEED / self._speed)
        failing = self._flow(_FAILING)
        self._sandbox.engine.start_flow_run(failing, by=failing.creator_id, ran_from=RanFrom.UI)
        for number, (what, name) in enumerate(itertools.cycle(_TURNS)):
            self._start(what, name)
            is_first = number < _AT_ONCE - 1
            await self._world.clock.sleep(_FIRST_GAP_SECONDS if is_first else gap_seconds)

    def text(self, *, page_url: str, broker_port: int) -> str:
        """Return what to look at."""
        troubles = self._troubles
        failing, missed, slow = (f"'{name}'".replace(" ", TIE) for name in _PIPELINES)
        parts = [f"{failing} fails each time it runs: {_ERROR}."]
        if (at := troubles.missed_at) is not None:
            parts.append(
                f"{missed} starts every day at {at:%H:%M} UTC, and will not start today; its alert "
                f"comes {MISSED_GRACE_SECONDS:.0f} s later."
            )
        if (since := troubles.slow_since) is not None:
            usually = f"{troubles.usually_minutes:.0f} minutes"
            parts.append(f"{slow} takes {usually} usually, and has run since {since:%H:%M}.")
        return (
            "A calm workspace with a week of history. What is wrong in it: "
            f"{' '.join(parts)} All else is well. Look at {page_url}, or subscribe: "
            + f"mosquitto_sub -p {broker_port} -t 'dataprep/#' -v".replace(" ", TIE)
        )

    def _live_through_the_week(self, now: datetime, slow: Flow, slow_at: datetime) -> None:
        begin = now - _PAST
        self._sandbox.live_through(begin, now - _CALM, people=_PEOPLE)
        for flow in self._world.flows.live():
            flow.failure_ratio = 0.0
        before_slow = slow_at - timedelta(seconds=1)
        self._sandbox.live_through(now - _CALM, before_slow, people=_PEOPLE)
        self._troubles.usually_minutes = self._usually_minutes()
        order = Order(
            flow_id=slow.id, outcome=Outcome.COMPLETE, work_seconds=_SLOW_SECONDS * self._speed
        )
        if self._troubles.slow_since is not None:
            self._sandbox.engine.order(order)
        self._sandbox.live_through(before_slow, now, people=_NO_PEOPLE)

    def _usually_minutes(self) -> float:
        """Return how long the slow plan took of late: it depends on the weekday, too."""
        plan_runs = [
            (run.finished_at - run.started_at).total_seconds() / 60
            for plan in self._world.plans.having("name", _SLOW)
            for run in self._world.plan_runs.having("plan_id", plan.id)
            if run.started_at is not None and run.finished_at is not None
        ]
        return median(plan_runs[-_OF_LATE:]) if plan_runs else 0.0

    def _start(self, what: str, name: str) -> None:
        engine = self._sandbox.engine
        if what == "flow":
            flow = self._flow(name)
            engine.start_flow_run(flow, by=flow.creator_id, ran_from=RanFrom.UI)
        elif what == "plan":
            for plan in self._world.plans.having("name", name):
                engine.start_plan_run(plan, by=plan.creator_id)
        else:
            recipe = next(iter(self._world.recipes.having("name", name)))
            ran_for = RanFor.SAMPLING if what == "sample" else RanFor.RECIPE
            engine.start_job_group(recipe, by=recipe.creator_id, ran_for=ran_for, profiling=True)

    def _flow(self, name: str) -> Flow:
        return next(iter(self._world.flows.having("name", name)))

    def _add_flow(self, name: str, usual_seconds: float) -> Flow:
        flow = add_flow(
            self._world,
            name,
            ((name, ()),),
            by=self._administrator_id,
            created_at=self._world.now() - _MADE,
            failure_ratio=0.0,
            chance=self._world.random("story", name),
        )
        flow.usual_seconds = usual_seconds * self._speed
        return flow

    def _plan_of(self, flow: Flow) -> Plan:
        by, created_at = flow.creator_id, flow.created_at
        plan = self._world.create(Plan, by=by, created_at=created_at, name=_SLOW, description="")
        self._world.create(
            PlanNode,
            by=by,
            created_at=created_at,
            plan_id=plan.id,
            handle="s0",
            name=flow.name,
            task_type="flow",
            flow_id=flow.id,
        )
        return plan

    def _schedule(self, target: Flow | Plan, trigger: ScheduleTrigger) -> Schedule:
        return add_schedule(self._world, target, trigger, by=self._administrator_id)


def _every(hours: int, at: datetime) -> CronTrigger:
    """Return what fires each so many hours, ``at`` being one of the times."""
    return CronTrigger(expression=f"0 {at.minute} {at.hour % hours}/{hours} * * ?")


def _next_minute(at: datetime) -> datetime:
    return (at + timedelta(minutes=1)).replace(second=0, microsecond=0)
