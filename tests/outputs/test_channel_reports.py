"""Reports that are due are sent to the channels that they name, each as a message of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.app.hosted.report_clock import report_due
from monitor.model.errors import BusUnavailableError, ConfigurationError
from monitor.model.reports import Report
from tests.outputs.alert_histories import fired
from tests.outputs.channels import channel, gotify, texts, titles
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import PostReceiver

DUE = datetime(2026, 11, 28, 7, tzinfo=UTC)
NIGHT = Report(
    since=DUE - timedelta(hours=13),
    until=DUE,
    made_at=DUE,
    verdict="All 12 runs of the night succeeded.",
)


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a server of messages."""
    async with PostReceiver() as made:
        made.text = "{}"
        yield made


class Reports:
    """Computes reports as a test configures."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.asked: list[tuple[str, datetime]] = []

    async def __call__(self, name: str, until: datetime) -> Report:
        self.asked.append((name, until))
        if self.failures:
            raise self.failures.pop(0)
        return NIGHT


@pytest.fixture
async def scenario(tmp_path: Path, receiver: PostReceiver) -> AsyncIterator[OutputScenario]:
    """Return a channel that one report names."""
    async with OutputScenario(
        tmp_path, lambda life: channel(life, gotify(receiver), reports=("last-night",))
    ) as made:
        made.report = Reports()
        yield made


async def test_a_report_is_a_message_of_its_own(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """Alerts of the same moment are another message, and the channel sends no other report."""
    await scenario.start()
    await scenario.emit(
        fired(1),
        report_due("last-night", DUE, recorded_at=DUE),
        report_due("weekly", DUE, recorded_at=DUE),
        fired(2),
    )
    await scenario.until_delivered()
    assert sorted(titles(receiver)) == [
        "2 alerts: 2 FAILED (w)",
        "All 12 runs of the night succeeded.",
    ]
    assert any("Report of 2026-11-27 18:00 to 2026-11-28 07:00" in text for text in texts(receiver))


async def test_a_report_is_sent_when_the_store_answers(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """A report that cannot be computed now is sent later, once, as of the time it was due."""
    reports = Reports()
    reports.failures = [BusUnavailableError("busy"), BusUnavailableError("busy")]
    scenario.report = reports
    await scenario.start()
    await scenario.emit(report_due("last-night", DUE, recorded_at=DUE))
    await scenario.until_delivered()
    assert titles(receiver) == ["All 12 runs of the night succeeded."]
    assert reports.asked == [("last-night", DUE)] * 3


async def test_a_report_that_was_removed_is_a_dead_letter(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """What was due and is not configured any more is kept with its reason, and blocks nothing."""
    reports = Reports()
    reports.failures = [ConfigurationError("the report is not configured any more")]
    scenario.report = reports
    await scenario.start()
    await scenario.emit(report_due("last-night", DUE, recorded_at=DUE), fired(1))
    await scenario.until_delivered()
    (letter,) = await scenario.letters()
    assert letter.reason == "the report is not configured any more"
    assert titles(receiver) == ["FAILED: orders 1 (w): no such file"]
