"""A failure that fired before its pipeline was known ends once, and does not fire again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.events import AlertEvent
from monitor.model.live_state import PollStatus
from monitor.model.observations import Observation
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import (
    JobDetails,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    Source,
)
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.alerting.engine_fixture import Fixture, engine_fixture

SALES = Pipeline(kind=PipelineKind.FLOW, id="11", name="Sales")
OTHER = Pipeline(kind=PipelineKind.FLOW, id="12", name="Other")


class Seen:
    """Runs as polls show them, an observer, and an engine that evaluates its events."""

    def __init__(self, fixture: Fixture) -> None:
        self.fixture = fixture
        self._observer = Observer(
            bus=fixture.bus,
            live_state=fixture.live_state,
            clock=fixture.clock,
            registry=CollectorRegistry(),
            settings=TrackingSettings(),
        )
        self._ends: dict[int, datetime] = {}

    async def begin(self) -> None:
        """Know what the life before has left."""
        await self._observer.open("acme")

    async def see(self, number: int, word: str, **told: Any) -> None:
        """Let a poll show a job group, a minute later, and the engine evaluate that."""
        await self.fixture.clock.advance(60)
        now = self.fixture.clock.now()
        end = self._ends.setdefault(number, now)
        observation = Observation(
            key=RunKey("acme", RunKind.JOB_GROUP, str(number)),
            observed_at=now,
            native_status=word,
            source=Source.POLL,
            created_at=end - timedelta(seconds=50),
            updated_at=end,
            finished_at=end,
            **told,
        )
        await self._observer.observe([observation])
        await self.fixture.engine.evaluate()
        await self.fixture.engine.evaluate()

    async def told(self) -> list[str]:
        """Return the transitions by pipeline, with the reason of each end."""
        rows = await self.fixture.bus.events(after=0, limit=1_000)
        alerts = [row.event for row in rows if isinstance(row.event, AlertEvent)]
        return [
            " ".join(
                str(word)
                for word in (
                    "?" if alert.alert.pipeline is None else alert.alert.pipeline.name,
                    alert.type.removeprefix("alert."),
                    alert.alert.facts.get("ended_because"),
                )
                if word is not None
            )
            for alert in alerts
        ]


@asynccontextmanager
async def seen(folder: Path, *rules: RuleKind) -> AsyncIterator[Seen]:
    async with engine_fixture(folder, *(rules or (RuleKind.RUN_FAILED,))) as fixture:
        made = Seen(fixture)
        await made.begin()
        yield made


OVER = "? resolved pipeline known since, and run again"


async def test_the_next_success_of_its_pipeline_ends_it(tmp_path: Path) -> None:
    """Once, with the reason; a name that becomes known does not fire a second time."""
    async with seen(tmp_path) as scenario:
        await scenario.see(1, "Failed")
        await scenario.see(1, "Failed", pipeline=SALES)
        await scenario.see(2, "Complete", pipeline=OTHER)
        assert await scenario.told() == ["? fired"]
        await scenario.see(3, "Complete", pipeline=SALES)
        await scenario.see(4, "Complete", pipeline=SALES)

        assert await scenario.told() == ["? fired", OVER]


async def test_the_job_records_may_show_the_pipeline(tmp_path: Path) -> None:
    """They come as an event of the run, which is then handled under its name."""
    async with seen(tmp_path) as scenario:
        await scenario.see(1, "Failed")
        jobs = JobDetails()
        await scenario.see(
            1, "Failed", pipeline=SALES, jobs=jobs, error="disk", is_detail_final=True
        )
        assert await scenario.told() == ["? fired"]
        await scenario.see(2, "Complete", pipeline=SALES)

        assert await scenario.told() == ["? fired", OVER]


async def test_the_next_failure_of_its_pipeline_goes_on_under_its_name(tmp_path: Path) -> None:
    """That one is another failure, and fires; one success ends what is left."""
    async with seen(tmp_path) as scenario:
        await scenario.see(1, "Failed")
        await scenario.see(1, "Failed", pipeline=SALES)
        await scenario.see(2, "Failed", pipeline=SALES)
        assert await scenario.told() == ["? fired", "Sales fired", OVER]
        await scenario.see(3, "Complete", pipeline=SALES)

        assert await scenario.told() == ["? fired", "Sales fired", OVER, "Sales resolved"]


async def test_every_failure_in_it_has_to_be_settled(tmp_path: Path) -> None:
    """Of two flows, and of one without a name yet; recipes are settled each by itself."""
    async with seen(tmp_path) as scenario:
        await scenario.see(1, "Failed", recipe=Recipe(id="7"))
        await scenario.see(2, "Failed")
        await scenario.see(1, "Failed", recipe=Recipe(id="7"), pipeline=SALES)
        await scenario.see(3, "Complete", pipeline=SALES, recipe=Recipe(id="7"))
        assert await scenario.told() == ["? fired"]
        await scenario.see(2, "Failed", pipeline=OTHER, recipe=Recipe(id="8"))
        await scenario.see(4, "Complete", pipeline=OTHER, recipe=Recipe(id="9"))
        assert await scenario.told() == ["? fired"]
        await scenario.see(5, "Complete", pipeline=OTHER, recipe=Recipe(id="8"))
        assert await scenario.told() == ["? fired", OVER]

        await scenario.see(6, "Failed")
        assert (await scenario.told())[2:] == ["? fired"]
        (alert,) = scenario.fixture.firing()
        assert alert.facts["failing"] == 1  # nothing is left of what was settled


async def test_it_ends_with_its_pipeline(tmp_path: Path) -> None:
    """Nothing of a deleted flow will ever succeed again."""
    async with seen(tmp_path) as scenario:
        await scenario.see(1, "Failed")
        await scenario.see(1, "Failed", pipeline=SALES)
        now = scenario.fixture.clock.now()
        scenario.fixture.live_state.update_workspace("acme", capabilities=frozenset({"list_flows"}))
        names = PollStatus(
            workspace="acme",
            poll="names",
            last_attempt_at=now,
            last_success_at=now,
            last_outcome=PollOutcome.OK,
        )
        scenario.fixture.live_state.record_poll(names)
        await scenario.fixture.engine.evaluate()
        assert await scenario.told() == ["? fired"]
        scenario.fixture.live_state.forget_pipeline("acme", PipelineKind.FLOW, "11")
        await scenario.fixture.engine.evaluate()

        assert await scenario.told() == ["? fired", "? resolved pipeline removed"]


async def test_it_ends_over_a_restart(tmp_path: Path) -> None:
    """An alert that fired in one life of the daemon resolves in the next, once."""
    async with seen(tmp_path) as scenario:
        await scenario.see(1, "Failed")
        await scenario.see(1, "Failed", pipeline=SALES)
    async with seen(tmp_path) as scenario:
        await scenario.fixture.clock.advance(3_600)
        await scenario.see(2, "Complete", pipeline=SALES)
        assert await scenario.told() == ["? fired", OVER]
    async with seen(tmp_path) as scenario:
        await scenario.fixture.clock.advance(7_200)
        await scenario.see(3, "Complete", pipeline=SALES)
        assert await scenario.told() == ["? fired", OVER]


@pytest.mark.parametrize("word", ["Failed", "Canceled"])
async def test_a_failure_does_not_end_an_alert_about_a_cancel(tmp_path: Path, word: str) -> None:
    """Only what fires again under the name is over without a success."""
    async with seen(tmp_path, RuleKind.CANCELED) as scenario:
        await scenario.see(1, "Canceled")
        await scenario.see(1, "Canceled", pipeline=SALES)
        await scenario.see(2, word, pipeline=SALES)
        assert await scenario.told() == (
            ["? fired"] if word == "Failed" else ["? fired", "Sales fired"]
        )
        await scenario.see(3, "Complete", pipeline=SALES)

        assert (await scenario.told()).count(OVER) == 1
