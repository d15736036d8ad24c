"""What is posted to an Alertmanager, and what happens to alerts that it does not accept."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.model.alerts import AlertingSnapshot, AlertState
from monitor.model.events import EventType
from monitor.model.secrets import Secret
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.alertmanager.settings import ALERTMANAGER, AlertmanagerSettings
from tests.app.eventually import eventually
from tests.outputs.alert_histories import BEGAN, ENDED, alert, event_of, fired, resolved
from tests.outputs.histories import run_event
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import BROKEN, PostReceiver, ReceivedRequest


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a receiver in place of an Alertmanager."""
    async with PostReceiver() as made:
        yield made


@pytest.fixture
async def scenario(tmp_path: Path, receiver: PostReceiver) -> AsyncIterator[OutputScenario]:
    """Return a scenario with one Alertmanager, whose output is not yet running."""
    async with OutputScenario(tmp_path, lambda scenario: output_for(scenario, receiver)) as made:
        yield made


def output_for(scenario: OutputScenario, receiver: PostReceiver, **more: Any) -> AlertmanagerOutput:
    settings = AlertmanagerSettings(
        urls=(receiver.url,), timeout_seconds=2, resend_seconds=60, **QUICK
    )
    return AlertmanagerOutput(msgspec.structs.replace(settings, **more), scenario.parts)


def ids(request: ReceivedRequest) -> list[str]:
    """Return the pipeline ids of the alerts in a request."""
    return [posted_alert["labels"]["pipeline_id"] for posted_alert in request.json()]


async def test_a_repetition_reads_as_of_its_own_time(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An alert that has not changed is resent with its age of now, by the workspace's clock."""
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, resend_seconds=0.2)
    ) as scenario:
        scenario.live_state.update_workspace("w", clock_skew_seconds=50.0)
        began = scenario.clock.now()
        waits = alert(
            templates={"summary": "waits {created_at:since}"},
            facts={"created_at": began.isoformat()},
        )
        scenario.snapshot = AlertingSnapshot(alerts=(waits,))
        await scenario.start()
        await eventually(lambda: len(summaries(receiver)) > 1, why="always the same text")
        assert not {f"waits for {seconds} s" for seconds in range(2, 50)} & summaries(receiver)


def summaries(receiver: PostReceiver) -> set[str]:
    """Return all texts that an alert was posted with."""
    return {
        posted_alert["annotations"]["summary"]
        for request in receiver.requests
        for posted_alert in request.json()
    }


async def test_start_and_end_arrive_in_order(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """Both are posted to the API of version 2; other events are skipped."""
    await scenario.start()
    await scenario.emit(
        run_event(), fired(1), event_of(alert(1), EventType.ALERT_REMINDED, number=1)
    )
    await scenario.until_delivered()
    await scenario.emit(resolved(1))
    await scenario.until_delivered()
    alerts = [posted_alert for request in receiver.requests for posted_alert in request.json()]
    assert {request.path for request in receiver.requests} == {"/api/v2/alerts"}
    assert len(alerts) == 2
    assert alerts[1]["endsAt"] == ENDED.isoformat().replace("+00:00", "Z")
    assert (scenario.count("delivered"), scenario.count("skipped")) == (2, 2)


async def test_a_storm_needs_few_requests(scenario: OutputScenario, receiver: PostReceiver) -> None:
    """Five hundred alerts are posted once each, at most 64 in a request."""
    await scenario.emit(*[fired(number) for number in range(500)])
    await scenario.start()
    await scenario.until_delivered()
    posted_ids = [id_ for request in receiver.requests for id_ in ids(request)]
    assert posted_ids == [str(number) for number in range(500)]
    assert max(len(ids(request)) for request in receiver.requests) <= 64
    assert len(receiver.requests) <= 20


@pytest.mark.parametrize("status", [500, 503, 429, 401, 404, 302, BROKEN])
async def test_an_alertmanager_that_cannot_accept_alerts_is_retried(
    scenario: OutputScenario, receiver: PostReceiver, status: int
) -> None:
    """No alert is lost or becomes a dead letter, whatever the Alertmanager answers meanwhile."""
    receiver.answers.extend([status, status])
    await scenario.start()
    await scenario.emit(fired(1), fired(2))
    await scenario.until_delivered()
    assert {id_ for request in receiver.accepted for id_ in ids(request)} == {"1", "2"}
    assert await scenario.letters() == []


@pytest.mark.parametrize("hours", [-1, 1])
async def test_an_alertmanager_with_another_time_is_posted_to_by_its_own(
    scenario: OutputScenario, receiver: PostReceiver, hours: int
) -> None:
    """No alert is posted as lapsed, or as not ended, by a clock that is not the Alertmanager's."""
    theirs = scenario.clock.now() + timedelta(hours=hours)
    receiver.headers = {"Date": format_datetime(theirs, usegmt=True)}
    await scenario.start()
    await scenario.emit(fired(1))
    await scenario.until_delivered()
    await scenario.emit(resolved(2, ends_at=scenario.clock.now()))
    await scenario.until_delivered()
    first, fires, ends = (request.json() for request in receiver.requests)
    assert first == []  # its answer has the time
    lapses_at, ends_at = (datetime.fromisoformat(sent[0]["endsAt"]) for sent in (fires, ends))
    assert abs(lapses_at - theirs - timedelta(minutes=4)) < timedelta(seconds=10)
    assert ends_at <= theirs + timedelta(seconds=10)


async def test_an_alertmanager_without_a_time_is_posted_to_by_our_own(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """It is asked once, also where it refuses to be sent no alert."""
    receiver.headers = {"Date": "today"}
    receiver.status_for = lambda body: 400 if body == b"[]" else 200
    await scenario.start()
    for number in (1, 2):
        await scenario.emit(fired(number))
        await scenario.until_delivered()
    assert [ids(request) for request in receiver.requests] == [[], ["1"], ["2"]]


async def test_a_clock_that_is_set_takes_no_alert_back(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """Each alert is posted as firing and as begun by the Alertmanager's clock, whatever ours shows.

    Ours is a second off, an hour, or 40 days, already as the daemon starts.
    """
    steps = [-40 * 86_400, 40 * 86_400, -3_600, 3_600, -1, 1, 0]
    for number, seconds in enumerate(steps):
        scenario.clock.ahead = timedelta(seconds=seconds)
        if number == 0:
            await scenario.start()
        await scenario.emit(fired(number))
        await scenario.until_delivered()
    posted = [sent for request in receiver.requests for sent in request.json()]
    now = datetime.now(UTC)
    for sent in posted:
        assert datetime.fromisoformat(sent["startsAt"]) == BEGAN
        lapses_at = datetime.fromisoformat(sent["endsAt"])
        assert abs(lapses_at - now - timedelta(minutes=4)) < timedelta(seconds=30)
    assert len(posted) == len(steps)


async def test_the_status_shows_whether_it_answers(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """After a failure the status names the answer, until the next request succeeds."""
    receiver.status_for = lambda _: 503
    await scenario.start()
    output = scenario.output
    assert isinstance(output, AlertmanagerOutput)
    assert output.is_well
    await scenario.emit(fired(1))
    await scenario.until(lambda: not output.is_well)
    assert output.status.startswith("does not answer: answered 503")
    receiver.status_for = None
    await scenario.until_delivered()
    assert (output.is_well, output.status) == (True, "no request failed last")


async def test_a_refused_alert_delays_no_other(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """Of the alerts in a request only the refused becomes a dead letter, with the reason."""
    receiver.status_for = lambda body: 400 if b'"bad-label"' in body else 200
    receiver.text = 'invalid label "bad-label"'
    bad = fired(2, labels={**alert(2).labels, "bad-label": "x"})
    await scenario.emit(fired(1), bad, fired(3))
    await scenario.start()
    await scenario.until_delivered()
    (letter,) = await scenario.letters()
    assert letter.event.id == bad.id
    assert "bad-label" in letter.reason
    assert [id_ for request in receiver.accepted for id_ in ids(request)] == ["1", "3"]


async def test_firing_alerts_are_repeated(tmp_path: Path, receiver: PostReceiver) -> None:
    """Each interval repeats every firing alert, also one that fired before a restart."""
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, resend_seconds=0.05)
    ) as scenario:
        unnotified = alert(3, is_notified=False, muted_by=("mute",))
        pending = alert(4, AlertState.PENDING, is_notified=False)
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1), alert(2), unnotified, pending))
        await scenario.start()
        await receiver.until(lambda: len(receiver.accepted) >= 4)
        assert {tuple(ids(request)) for request in receiver.accepted[1:]} == {("1", "2")}


async def test_a_repetition_never_revives_a_resolved_alert(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A resolved event of the log outweighs a lagging snapshot, and is repeated."""
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, resend_seconds=0.05)
    ) as scenario:
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1),))
        await scenario.start()
        await scenario.emit(fired(1), resolved(1))
        await scenario.until_delivered()
        posted_before = len(receiver.requests)
        await receiver.until(lambda: len(receiver.requests) >= posted_before + 3)
        ends = [
            posted_alert["endsAt"]
            for request in receiver.requests[posted_before:]
            for posted_alert in request.json()
        ]
        assert set(ends) == {ENDED.isoformat().replace("+00:00", "Z")}


async def test_a_new_alert_is_repeated_after_an_old_end(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A resolved alert suppresses only its own repetitions, not those of the next alert."""
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, resend_seconds=0.05)
    ) as scenario:
        await scenario.start()
        await scenario.emit(resolved(1))
        await scenario.until_delivered()
        again = BEGAN + timedelta(hours=1)
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1, starts_at=again),))
        await receiver.until(
            lambda: any(
                posted_alert["endsAt"] > posted_alert["startsAt"]
                and posted_alert["startsAt"] != "2024-11-21T09:30:00Z"
                for request in receiver.accepted
                for posted_alert in request.json()
            )
        )
        newest = receiver.accepted[-1].json()[0]
        assert datetime.fromisoformat(newest["startsAt"]) == again


@pytest.mark.parametrize("later", [timedelta(hours=1), timedelta(), timedelta(seconds=-1)])
async def test_events_that_are_read_again_take_no_alert_back(
    scenario: OutputScenario, receiver: PostReceiver, later: timedelta
) -> None:
    """The next holder reads the log again from before its end, and posts what still is so.

    The first alert is over and another one fires, whose evidence may say that it began in
    the same second, or before; of the other pipeline only the end is left to post.
    """
    again = BEGAN + later
    current = alert(1, starts_at=again)
    scenario.snapshot = AlertingSnapshot(alerts=(current, alert(2, AlertState.RESOLVED)))
    await scenario.emit(fired(1), fired(2), resolved(1), resolved(2), event_of(current, number=2))
    await scenario.start()
    await scenario.until_delivered()
    assert {
        (posted_alert["labels"]["pipeline_id"], starts, ends == ENDED)
        for request in receiver.accepted
        for posted_alert in request.json()
        for starts, ends in [
            (datetime.fromisoformat(posted_alert[key]) for key in ("startsAt", "endsAt"))
        ]
    } == {("1", again, False), ("2", BEGAN, True)}


async def test_a_refused_repetition_is_dropped(tmp_path: Path, receiver: PostReceiver) -> None:
    """The other alerts are repeated on, and the refused one is not posted again and again."""
    receiver.status_for = lambda body: 400 if b'"2"' in body else 200
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, resend_seconds=0.05)
    ) as scenario:
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1), alert(2)))
        await scenario.start()
        await receiver.until(lambda: len(receiver.accepted) >= 5)
        assert [request.status for request in receiver.requests].count(400) == 2
        assert {tuple(ids(request)) for request in receiver.accepted[1:]} == {("1",)}


async def test_each_alertmanager_has_its_own_position(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An Alertmanager that is down misses nothing, and the other does not wait for it."""
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver)
    ) as scenario:
        await receiver.stop()
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until(lambda: scenario.count("failed") > 0)
        await scenario.stop()
        await receiver.start()
        await scenario.start()
        await scenario.until_delivered()
        assert [id_ for request in receiver.accepted for id_ in ids(request)] == ["1"]
    urls = ("http://one:9093", "https://two/alerts/")
    assert ALERTMANAGER.names(AlertmanagerSettings(urls=urls)) == [
        "alertmanager:one:9093",
        "alertmanager:two:443/alerts",
    ]


async def test_credentials_are_sent_and_never_shown(
    tmp_path: Path, receiver: PostReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the status nor a dead letter repeats the credentials that were sent."""
    hidden = {"username": "ada", "password": Secret("s3cret-pass")}
    receiver.status_for = lambda _: 400
    pair = base64.b64encode(b"ada:s3cret-pass").decode()
    receiver.text = f"you sent Basic {pair}, or {pair}"
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, **hidden)
    ) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        (letter,) = await scenario.letters()
        assert receiver.requests[0].headers["Authorization"] == f"Basic {pair}"
        assert letter.reason == "answered 400: you sent ***, or ***"
        shown = f"{letter.reason} {vars(scenario.output)} {caplog.text}"
        assert "s3cret" not in shown
        assert pair not in shown
