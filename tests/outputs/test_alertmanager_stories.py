"""Whatever happens in whatever order, an Alertmanager ends up with the truth."""

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
from monitor.outputs.settings import AlertmanagerSettings
from tests.app.eventually import pause
from tests.outputs.alert_stories import BEGAN, alert, event_of
from tests.outputs.output_scene import QUICK, OutputScene
from tests.outputs.receiving import BROKEN, PostReceiver

RESEND_SECONDS = 0.02


class Step(Struct, frozen=True):
    """What happens next: an alert changes, the snapshot follows, answers fail, the daemon ends."""

    what: str
    number: int = 1


STEPS = st.one_of(
    st.builds(Step, st.just("change"), st.integers(1, 3)),
    st.builds(Step, st.sampled_from(["picture", "restart", "kill", "wait"])),
    st.builds(Step, st.just("fail"), st.sampled_from([500, 503, BROKEN])),
)


class Story:
    """The truth about three alerts, and what an Alertmanager was made to believe."""

    def __init__(self, scene: OutputScene, receiver: PostReceiver) -> None:
        self.scene = scene
        self.receiver = receiver
        self.truth: dict[int, Alert] = {}

    async def take(self, step: Step) -> None:
        if step.what == "change":
            await self._change(step.number)
        elif step.what == "picture":
            self.scene.picture = AlertingSnapshot(alerts=tuple(self.truth.values()))
        elif step.what in ("restart", "kill"):
            # The engine is restored before the outputs, so that its picture is never behind them.
            await (self.scene.stop() if step.what == "restart" else self.scene.kill())
            self.scene.picture = AlertingSnapshot(alerts=tuple(self.truth.values()))
            await self.scene.start()
        elif step.what == "fail":
            self.receiver.answers.append(step.number)
        else:
            await pause(RESEND_SECONDS)

    async def _change(self, number: int) -> None:
        before = self.truth.get(number)
        if before is None or before.state is AlertState.RESOLVED:
            begins = BEGAN if before is None or before.ends_at is None else before.ends_at
            now = alert(number, starts_at=begins + timedelta(seconds=1))
        else:
            ends = before.starts_at + timedelta(seconds=1)
            now = alert(number, AlertState.RESOLVED, starts_at=before.starts_at, ends_at=ends)
        self.truth[number] = now
        await self.scene.tell(event_of(now))

    async def until_repeated(self, *, times: int) -> None:
        """Wait until each alert that is firing now has been posted so many times more."""
        firing = {n for n, alert in self.truth.items() if alert.state is AlertState.FIRING}
        before = len(self.receiver.taken)

        def is_repeated() -> bool:
            posted = Counter(
                int(item["labels"]["pipeline_id"])
                for got in self.receiver.taken[before:]
                for item in got.json()
            )
            return all(posted[number] >= times for number in firing)

        await self.receiver.until(is_repeated)

    def believed(self) -> dict[int, tuple[datetime, bool]]:
        """Return of each alert the start and whether it is firing, as it was posted last.

        Ends of these stories lie far behind us, lapses ahead.
        """
        last: dict[int, tuple[datetime, bool]] = {}
        for got in self.receiver.taken:
            for item in got.json():
                starts, ends = (datetime.fromisoformat(item[k]) for k in ("startsAt", "endsAt"))
                number = int(item["labels"]["pipeline_id"])
                last[number] = starts, ends > self.scene.clock.now() - timedelta(hours=1)
        return last

    def expected(self) -> dict[int, tuple[datetime, bool]]:
        return {
            number: (item.starts_at, item.state is AlertState.FIRING)
            for number, item in self.truth.items()
        }


async def told(steps: list[Step], folder: Path) -> Story:
    """Let the steps happen, then wait until all is delivered and repeated twice."""

    def make(scene: OutputScene) -> AlertmanagerOutput:
        return AlertmanagerOutput(
            receiver.url,
            settings=AlertmanagerSettings(
                urls=(receiver.url,), resend_seconds=RESEND_SECONDS, delivery=QUICK
            ),
            bus=scene.store,
            clock=scene.clock,
            metrics=scene.metrics,
            alerting=lambda: scene.picture,
        )

    async with PostReceiver() as receiver, OutputScene(folder, make) as scene:
        story = Story(scene, receiver)
        await scene.start()
        for step in steps:
            await story.take(step)
        receiver.answers.clear()
        await scene.until_delivered()
        await story.take(Step("picture"))
        await story.take(Step("restart"))
        # The first may be the repetition that was on its way when the former life ended.
        await story.until_repeated(times=2)
        await story.take(Step("wait"))
        return story


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=14))
@example(  # a lagging snapshot repeats the start of the alert before
    [Step("change"), Step("picture"), Step("wait"), Step("change"), Step("change")]
)
def test_what_was_posted_last_is_the_truth(steps: list[Step]) -> None:
    """Failures, kills and a snapshot that lags let no alert fire that is over, nor end early."""
    with tempfile.TemporaryDirectory() as folder:
        story = asyncio.run(told(steps, Path(folder)))
    assert story.believed() == story.expected()
