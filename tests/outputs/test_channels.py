"""Channels: what reaches a service, how often, in which order, and what becomes of a refusal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from monitor.model.alerts import AlertingSnapshot
from monitor.model.checks import CheckOutcome
from monitor.model.clock import SystemClock
from monitor.model.events import EventType
from monitor.model.runs import Parents, Status
from monitor.outputs.notify.output import ChannelOutput
from monitor.outputs.notify.settings import ChannelMatch, NotifySettings
from tests.outputs.alert_histories import alert, event_of, fired, resolved
from tests.outputs.channels import channel, channel_settings, gotify, texts, titles
from tests.outputs.histories import run_event
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import BROKEN, DEAF, PostReceiver
from tests.servers import free_port


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a server of messages."""
    async with PostReceiver() as made:
        made.text = "{}"
        yield made


def scenario_of(folder: Path, receiver: PostReceiver, **more: Any) -> OutputScenario:
    return OutputScenario(folder, lambda scenario: channel(scenario, gotify(receiver), **more))


async def test_a_failure_and_its_end_are_two_messages(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """People read what failed, where and why, and that it is over, without a look elsewhere."""
    async with scenario_of(tmp_path, receiver) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        await scenario.emit(resolved(1))
        await scenario.until_delivered()
    assert titles(receiver) == [
        "FAILED: orders 1 (w): no such file",
        "RESOLVED: orders 1 (w): no such file",
    ]
    assert "Since: Thu 21 Nov 2024 09:30 UTC" in texts(receiver)[0]
    assert "10 min later" in texts(receiver)[1]


async def test_what_comes_together_is_one_message(tmp_path: Path, receiver: PostReceiver) -> None:
    """A burst of 1,000 alerts is a handful of messages, which name the worst and count the rest."""
    async with scenario_of(tmp_path, receiver, group_wait_seconds=0.5) as scenario:
        await scenario.start()
        for first in range(0, 1_000, 100):
            await scenario.emit(*(fired(number) for number in range(first, first + 100)))
        await scenario.until_delivered()
        assert scenario.count("delivered") == 1_000
        assert await scenario.letters() == []
    assert 1 <= len(receiver.accepted) <= 5
    assert sum(int(title.split()[0].replace(",", "")) for title in titles(receiver)) == 1_000
    assert all(text.count("FAILED: orders") <= 20 for text in texts(receiver))


async def test_an_alert_that_ended_within_its_group_is_one_line(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """What fired and ended while its group waited is told as what it is now."""
    async with scenario_of(tmp_path, receiver, group_wait_seconds=0.3) as scenario:
        await scenario.start()
        await scenario.emit(fired(1), resolved(1))
        await scenario.until_delivered()
    assert titles(receiver) == ["RESOLVED: orders 1 (w): no such file"]


@pytest.mark.parametrize("answer", [503, 429, 401, 404, DEAF, BROKEN])
async def test_an_outage_loses_and_repeats_nothing(
    tmp_path: Path, receiver: PostReceiver, answer: int
) -> None:
    """A service that does not take a message gets it later, once, and in order."""
    receiver.answers.extend([answer] * 3)
    async with scenario_of(tmp_path, receiver, timeout_seconds=1.0, group_by=("alert",)) as life:
        await life.start()
        await life.emit(fired(1), fired(2))
        await life.until(lambda: len(receiver.accepted) == 2)
        await life.emit(resolved(1))
        await life.until_delivered()
        assert await life.letters() == []
    assert [title.split(":")[0] for title in titles(receiver) if "orders 1" in title] == [
        "FAILED",
        "RESOLVED",
    ]


async def test_a_refused_message_is_a_dead_letter_without_secrets(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A message that the service will never take is kept with its answer, and blocks nothing."""
    receiver.answers.append(400)
    receiver.text = '{"error": "bad", "token": "s3cr3t-t0ken"}'
    async with scenario_of(tmp_path, receiver) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        (letter,) = await scenario.letters()
        await scenario.emit(fired(2))
        await scenario.until_delivered()
    assert "400" in letter.reason
    assert "s3cr3t-t0ken" not in letter.reason
    assert titles(receiver) == ["FAILED: orders 2 (w): no such file"]


async def test_no_part_of_a_secret_stays_where_an_answer_is_cut(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An answer that repeats the token is shown without any of it, wherever it stands."""
    receiver.answers.extend([400] * 30)
    async with scenario_of(tmp_path, receiver, group_by=("alert",)) as scenario:
        await scenario.start()
        for number in range(30):
            receiver.text = "x" * (275 + number) + " s3cr3t-t0ken"
            await scenario.emit(fired(number))
            await scenario.until_delivered()
        letters = await scenario.letters()
    assert len(letters) == 30
    assert not [letter.reason for letter in letters if "s3c" in letter.reason]


async def test_a_kill_repeats_one_message_at_most(tmp_path: Path, receiver: PostReceiver) -> None:
    """Killed at any step of its store, a channel sends everything, and nothing more than twice."""
    for cut in range(1, 5):
        for is_stored in (False, True):
            folder = tmp_path / f"{cut}{is_stored}"
            folder.mkdir()
            receiver.requests.clear()
            async with scenario_of(folder, receiver) as scenario:
                await scenario.start(cut=cut, is_stored=is_stored)
                for number in (1, 2, 3):
                    await scenario.emit(fired(number))
                    if not await scenario.is_delivered():
                        break
                await scenario.kill()
                await scenario.start()
                await scenario.emit(*(fired(again) for again in range(number + 1, 4)))
                await scenario.until_delivered()
            told = " ".join(texts(receiver))
            counts = [told.count(f"FAILED: orders {number} ") for number in (1, 2, 3)]
            assert all(1 <= count <= 2 for count in counts), (cut, is_stored, counts)


async def test_a_channel_sends_only_what_it_is_about(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """Globs of a channel choose by pipeline, rule, severity and workspace; the rest is skipped."""
    match = ChannelMatch(pipeline=("orders 1*", "!orders 11"), rule=("run_*",), workspace=("w",))
    async with scenario_of(tmp_path, receiver, match=match) as scenario:
        await scenario.start()
        await scenario.emit(fired(1), fired(2), fired(11), fired(12))
        await scenario.until_delivered()
        assert scenario.count("delivered") == 2
        assert scenario.count("skipped") == 2


async def test_runs_are_sent_by_choice_and_without_their_parts(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A channel that wants successes gets those of runs that are part of no other."""
    async with scenario_of(tmp_path, receiver, events=("succeeded",)) as scenario:
        await scenario.start()
        part = run_event("2", Status.SUCCEEDED, parents=Parents(flow_run="1"))
        await scenario.emit(run_event("1", Status.SUCCEEDED), part, fired(1))
        await scenario.until_delivered()
    assert titles(receiver) == ["SUCCEEDED: orders (w)"]


async def test_reminders_come_no_more_often_than_the_channel_allows(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A reminder within repeat_seconds of the last message about its alert is left out."""
    reminded = [event_of(alert(1), EventType.ALERT_REMINDED, number=n) for n in (1, 2)]
    async with scenario_of(tmp_path, receiver, repeat_seconds=3_600.0) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        await scenario.emit(*reminded)
        await scenario.until_delivered()
    assert titles(receiver) == ["FAILED: orders 1 (w): no such file"]


async def test_what_was_over_when_seen_is_sent_by_choice_only(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An alert that had ended before it was observed is sent only to channels that ask for it."""
    async with scenario_of(tmp_path, receiver) as scenario:
        await scenario.start()
        await scenario.emit(fired(1, over_when_seen=True), resolved(1, over_when_seen=True))
        await scenario.until_delivered()
    assert receiver.requests == []


async def test_a_stop_sends_what_waits_for_its_group(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A daemon that stops does not keep an alert back for the rest of its group's time."""
    async with scenario_of(tmp_path, receiver, group_wait_seconds=600.0) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        output = scenario.output
        assert isinstance(output, ChannelOutput)
        await scenario.until(lambda: output._delivery._delivery_run.window.sent == 1)
        await scenario.until_delivered()
    assert len(receiver.accepted) == 1


def test_the_url_of_a_channel_is_in_no_text() -> None:
    """Settings are logged and shown; the URL, which holds the secret, is not."""
    settings = channel_settings("gotify://127.0.0.1:1/s3cr3t-t0ken")
    assert "s3cr3t" not in repr(settings)


async def test_a_reason_that_becomes_known_meanwhile_is_in_the_message(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A message says what is known when it is sent, not when its alert fired."""
    async with scenario_of(tmp_path, receiver) as scenario:
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1, facts={"error": "disk full"}),))
        await scenario.start()
        await scenario.emit(fired(1, facts={}))
        await scenario.until_delivered()
    assert titles(receiver) == ["FAILED: orders 1 (w): disk full"]


async def test_doctor_connects_to_each_service_and_sends_nothing(
    receiver: PostReceiver,
) -> None:
    """A service that listens is ok, one that does not has failed; a message is not needed."""
    away = f"gotify://127.0.0.1:{free_port()}/s3cr3t-t0ken"
    settings = NotifySettings(
        channels=(
            channel_settings(gotify(receiver), name="here"),
            channel_settings(away, name="away"),
        )
    )
    here, gone = await ChannelOutput.check(settings, clock=SystemClock())
    assert (here.outcome, here.subject) == (CheckOutcome.OK, "notify here")
    assert here.found == "Gotify: accepts connections; nothing was sent"
    assert (gone.outcome, gone.subject) == (CheckOutcome.FAILED, "notify away")
    assert "s3cr3t" not in f"{here}{gone}"
    assert receiver.requests == []


async def test_a_service_that_hangs_takes_no_thread_of_others(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """However many channels wait for an answer, work in the threads that all share goes on."""
    receiver.answers.extend([DEAF] * 40)
    async with contextlib.AsyncExitStack() as lives:
        for number in range(40):
            folder = tmp_path / str(number)
            folder.mkdir()
            life = await lives.enter_async_context(scenario_of(folder, receiver))
            await life.start()
            await life.emit(fired(1))
        await receiver.until(lambda: len(receiver.requests) >= 40)  # some may try again
        assert await asyncio.to_thread(int, "1") == 1
        await receiver.stop()


async def test_a_kill_in_mid_send_sends_twice_at_most(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A daemon that is killed while a service answers sends that message once more, no other."""
    async with scenario_of(tmp_path, receiver, group_by=("alert",)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        receiver.pause_seconds = 0.5
        await scenario.emit(fired(2), fired(3))
        await receiver.until(lambda: len(receiver.requests) == 2)
        await scenario.kill()
        receiver.pause_seconds = 0.0
        await scenario.start()
        await scenario.until_delivered()
    told = [title.split(" (")[0].removeprefix("FAILED: ") for title in titles(receiver)]
    assert sorted(set(told)) == ["orders 1", "orders 2", "orders 3"]
    assert told.count("orders 1") == 1
    assert told.count("orders 2") <= 2
    assert told.count("orders 3") == 1
