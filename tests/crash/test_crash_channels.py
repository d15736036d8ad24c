"""``kill -9`` around the messages of a channel: each step of an alert reaches it, at most twice."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum
from itertools import groupby
from pathlib import Path

import pytest

from monitor.sandbox.running.engine import Outcome
from tests.app.eventually import eventually, pause
from tests.crash import store_copy
from tests.crash.conftest import ReportCounts
from tests.crash.scenario import CHANNEL, Scenario, scenario
from tests.crash.test_crash_alerts import end_runs, received, recipes_of
from tests.outputs.channels import gotify, titles
from tests.outputs.receiving import DEAF, PostReceiver

pytestmark = pytest.mark.timeout(600)  # lives of seconds each, on a machine that does more

_PATIENCE_SECONDS = 60.0
_WORDS = {Outcome.FAILED: "FAILED", Outcome.COMPLETE: "RESOLVED"}
_FLOWS = 3
_MOST = 2  # a message is sent again if its answer was not stored


class Step(StrEnum):
    """Where the daemon is with a message when it is killed."""

    BEFORE = "before it is sent"
    SENDING = "sent and not answered"
    ANSWERED = "answered"


class KilledChannel:
    """The receiver of a channel, and the kills around its messages."""

    def __init__(self, crash: Scenario, receiver: PostReceiver) -> None:
        self._crash, self._receiver = crash, receiver
        self._recipes = recipes_of(crash)[:_FLOWS]
        self.words: list[str] = []  # of each alert, in their order
        self.repeated = 0
        self._held = 0  # messages without an answer, at which the daemon was killed

    async def end_runs_and_kill(self, outcome: Outcome, step: Step) -> None:
        """Let each flow end a run, and kill the daemon at a step of one of the messages."""
        self.words.append(_WORDS[outcome])
        number = self._crash.chance.randrange(len(self._recipes))
        if step is Step.SENDING:
            self._held += 1
            self._receiver.answers.extend([200] * number + [DEAF])
        before = len(self._receiver.requests)
        ending = asyncio.create_task(end_runs(self._crash, self._recipes, outcome))
        if step is Step.BEFORE:
            await self._until(lambda: self._has_published(number + 1))
        else:
            await self._until(lambda: len(self._receiver.requests) > before + number)
        if step is Step.ANSWERED:
            await pause(self._crash.chance.uniform(0.0, 0.05))
        await self._crash.kill()
        await ending
        await self._until(self._is_complete)
        newest = store_copy.newest_position(self._crash.store)
        await self._until(
            lambda: store_copy.positions(self._crash.store)[f"notify:{CHANNEL}"] >= newest
        )

    def check(self) -> None:
        """Check that each alert came in its order, each step of it once or twice."""
        held = [request for request in self._receiver.requests if request.status == DEAF]
        assert len(held) == self._held
        for name, said in _by_pipeline(self._receiver).items():
            steps = [(word, len(list(same))) for word, same in groupby(said)]
            assert [word for word, _ in steps] == self.words, (name, said)
            assert max(times for _, times in steps) <= _MOST, (name, said)
            self.repeated += sum(times - 1 for _, times in steps)
        assert self.repeated >= self._held

    def _has_published(self, count: int) -> bool:
        """True when so many alerts have taken the newest step, by the broker."""
        steps = len(self.words)
        return sum(len(words) >= steps for words in received(self._crash).values()) >= count

    def _is_complete(self) -> bool:
        accepted = _by_pipeline(self._receiver, only_accepted=True)
        steps = [[word for word, _ in groupby(said)] for said in accepted.values()]
        return steps == [self.words] * len(self._recipes)

    async def _until(self, condition: Callable[[], bool]) -> None:
        await eventually(
            condition,
            why=lambda: (
                f"seed {self._crash.seed}: {titles(self._receiver)}\n"
                f"{self._crash.daemon.log[-3000:]}"
            ),
            within_seconds=_PATIENCE_SECONDS,
        )


def _by_pipeline(receiver: PostReceiver, *, only_accepted: bool = False) -> dict[str, list[str]]:
    """Return what was said of each pipeline, such as FAILED, in the order of its arrival."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    for request in receiver.accepted if only_accepted else receiver.requests:
        word, _, rest = str(request.json()["title"]).partition(": ")
        said[rest.partition(" (acme)")[0]].append(word)
    return dict(said)


async def play(
    tmp_path: Path, *, seed: int, steps: list[Step] | None, kills: int, report: ReportCounts
) -> None:
    """Kill at the steps, or at random ones, while the flows fail and recover in turn."""
    async with (
        PostReceiver() as receiver,
        scenario(tmp_path, seed=seed, channel_url=gotify(receiver)) as crash,
    ):
        channel = KilledChannel(crash, receiver)
        for number in range(kills):
            outcome = (Outcome.FAILED, Outcome.COMPLETE)[number % 2]
            step = steps[number] if steps else crash.chance.choice(list(Step))
            await channel.end_runs_and_kill(outcome, step)
        assert await crash.daemon.end() == 0
        assert "Traceback" not in crash.daemon.log
        channel.check()
        messages = len(receiver.requests)
        report(
            "kills around messages",
            seed=seed,
            messages=messages,
            repeated=channel.repeated,
            kills=crash.kills,
        )


async def test_kills_before_in_and_after_a_message(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """Each alert and each end reaches the channel, in order for each alert and at most twice."""
    steps = [Step.BEFORE, Step.SENDING, Step.ANSWERED]
    await play(tmp_path, seed=seed, steps=steps, kills=len(steps), report=report_counts)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
async def test_many_kills_around_messages(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """The same for half an hour, at any step of any message."""
    await play(tmp_path, seed=seed, steps=None, kills=100, report=report_counts)
