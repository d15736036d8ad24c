"""After any history of changes and failures, an Alertmanager holds the true state."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from monitor.model.alerts import Alert, AlertingSnapshot, AlertState
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from tests.app.eventually import pause
from tests.examples import examples
from tests.outputs.alert_histories import BEGAN, alert, event_of
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import BROKEN, PostReceiver

RESEND_SECONDS = 0.02


class Step(Struct, frozen=True):
    """What happens next: an alert changes, the snapshot follows, answers fail, the daemon ends."""

    what: str
    number: int = 1
    later: int = 1  # seconds from the last end to the start of the next alert


STEPS = st.one_of(
    st.builds(Step, st.just("change"), st.integers(1, 3), st.sampled_from([1, -5])),
    st.builds(Step, st.sampled_from(["snapshot", "restart", "kill", "wait"])),
    st.builds(Step, st.just("fail"), st.sampled_from([500, 503, BROKEN])),
)


class History:
    """The true state of three alerts, and what was posted to an Alertmanager."""

    def __init__(self, scenario: OutputScenario, receiver: PostReceiver) -> None:
        self.scenario = scenario
        self.receiver = receiver
        self.truth: dict[int, Alert] = {}

    async def perform(self, step: Step) -> None:
        if step.what == "change":
            await self._change(step)
        elif step.what == "snapshot":
            self.scenario.snapshot = AlertingSnapshot(alerts=tuple(self.truth.values()))
        elif step.what in ("restart", "kill"):
            # The engine is restored before the outputs, so that its snapshot is never behind them.
            await (self.scenario.stop() if step.what == "restart" else self.scenario.kill())
            self.scenario.snapshot = AlertingSnapshot(alerts=tuple(self.truth.values()))
            await self.scenario.start()
        elif step.what == "fail":
            self.receiver.answers.append(step.number)
        else:
            await pause(RESEND_SECONDS)

    async def _change(self, step: Step) -> None:
        number, before = step.number, self.truth.get(step.number)
        if before is None or before.state is AlertState.RESOLVED:
            if step.later < 0:  # the snapshot does not lag by several alerts whose starts go back
                await self.perform(Step("snapshot"))
            begins = BEGAN if before is None or before.ends_at is None else before.ends_at
            now = alert(number, starts_at=begins + timedelta(seconds=step.later))
        else:
            ends = before.starts_at + timedelta(seconds=1)
            now = alert(number, AlertState.RESOLVED, starts_at=before.starts_at, ends_at=ends)
        self.truth[number] = now
        await self.scenario.emit(event_of(now))

    async def until_repeated(self, *, times: int) -> None:
        """Wait until each firing alert has been posted ``times`` more."""
        firing = {n for n, alert in self.truth.items() if alert.state is AlertState.FIRING}
        before = len(self.receiver.accepted)

        def is_repeated() -> bool:
            posted = Counter(
                int(posted_alert["labels"]["pipeline_id"])
                for request in self.receiver.accepted[before:]
                for posted_alert in request.json()
            )
            return all(posted[number] >= times for number in firing)

        await self.receiver.until(is_repeated)

    def believed(self) -> dict[int, tuple[datetime, bool]]:
        """Return of each alert the start and whether it fires, as it was posted last.

        Ends in these histories lie in the past, lapses in the future.
        """
        last: dict[int, tuple[datetime, bool]] = {}
        for request in self.receiver.accepted:
            for posted_alert in request.json():
                starts, ends = (
                    datetime.fromisoformat(posted_alert[k]) for k in ("startsAt", "endsAt")
                )
                number = int(posted_alert["labels"]["pipeline_id"])
                last[number] = starts, ends > self.scenario.clock.now() - timedelta(hours=1)
        return last

    def expected(self) -> dict[int, tuple[datetime, bool]]:
        return {
            number: (alert.starts_at, alert.state is AlertState.FIRING)
            for number, alert in self.truth.items()
        }


async def play(steps: list[Step], folder: Path) -> History:
    """Run the steps, then wait until all is delivered and repeated twice."""

    def make(scenario: OutputScenario) -> AlertmanagerOutput:
        return AlertmanagerOutput(
            AlertmanagerSettings(urls=(receiver.url,), resend_seconds=RESEND_SECONDS, **QUICK),
            scenario.parts,
        )

    async with PostReceiver() as receiver, OutputScenario(folder, make) as scenario:
        history = History(scenario, receiver)
        await scenario.start()
        for step in steps:
            await history.perform(step)
        receiver.answers.clear()
        await scenario.until_delivered()
        await history.perform(Step("snapshot"))
        await history.perform(Step("restart"))
        # The first may be the repetition that was under way when the former process ended.
        await history.until_repeated(times=2)
        await history.perform(Step("wait"))
        return history


@settings(max_examples=examples(15))
@given(steps=st.lists(STEPS, min_size=1, max_size=14))
@example(  # a lagging snapshot repeats the start of the alert before
    [Step("change"), Step("snapshot"), Step("wait"), Step("change"), Step("change")]
)
def test_the_last_post_has_the_true_state(steps: list[Step]) -> None:
    """After failures, kills and a lagging snapshot no resolved alert fires, and no end is early."""
    with tempfile.TemporaryDirectory() as folder:
        history = asyncio.run(play(steps, Path(folder)))
    assert history.believed() == history.expected()
