"""What an Alertmanager is posted, and what becomes of alerts that it does not take."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.model.alerts import Alert, AlertingSnapshot, AlertState
from monitor.model.events import EventType
from monitor.model.secrets import Secret
from monitor.outputs.alertmanager.output import AlertmanagerOutput, consumers
from monitor.outputs.alertmanager.posting import body_of
from monitor.outputs.settings import AlertmanagerSettings
from tests.outputs.alert_stories import BEGAN, ENDED, alert, event_of, fired, resolved
from tests.outputs.output_scene import QUICK, OutputScene
from tests.outputs.receiving import BROKEN, Got, PostReceiver
from tests.outputs.stories import run_event

NOW = datetime(2024, 11, 21, 10, tzinfo=UTC)


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a receiver that stands where an Alertmanager would."""
    async with PostReceiver() as made:
        yield made


@pytest.fixture
async def scene(tmp_path: Path, receiver: PostReceiver) -> AsyncIterator[OutputScene]:
    """Return a scene around one Alertmanager, whose output is not yet running."""
    async with OutputScene(tmp_path, lambda item: output_for(item, receiver)) as made:
        yield made


def output_for(scene: OutputScene, receiver: PostReceiver, **more: Any) -> AlertmanagerOutput:
    settings = AlertmanagerSettings(
        urls=(receiver.url,), timeout_seconds=2, resend_seconds=60, delivery=QUICK
    )
    return AlertmanagerOutput(
        receiver.url,
        settings=msgspec.structs.replace(settings, **more),
        bus=scene.store,
        clock=scene.clock,
        metrics=scene.metrics,
        alerting=lambda: scene.picture,
    )


def posted(alert: Alert, *, now: datetime = NOW) -> dict[str, Any]:
    """Return what an Alertmanager reads of one alert."""
    (read,) = msgspec.json.decode(body_of([alert], now=now, resend_seconds=60))
    assert isinstance(read, dict)
    return read


def ids(got: Got) -> list[str]:
    """Return whose alerts one request told, by the ids of their pipelines."""
    return [item["labels"]["pipeline_id"] for item in got.json()]


def test_a_firing_alert_lapses_unless_it_is_told_again() -> None:
    """Its end lies four intervals ahead; labels and annotations are those of the episode."""
    read = posted(alert(1))
    assert read["startsAt"] == "2024-11-21T09:30:00Z"
    assert read["endsAt"] == "2024-11-21T10:04:00Z"
    assert read["labels"] == alert(1).labels
    assert read["annotations"] == {"summary": "orders 1 failed", "run": "91"}
    assert "generatorURL" not in read


def test_a_resolved_alert_carries_its_end() -> None:
    """The end is that of the evidence, not the moment of telling."""
    assert posted(alert(1, AlertState.RESOLVED))["endsAt"] == "2024-11-21T09:40:00Z"


@pytest.mark.parametrize(
    ("starts_at", "ends_at"),
    [
        (NOW + timedelta(hours=1), NOW + timedelta(hours=2)),
        (NOW - timedelta(hours=1), NOW + timedelta(hours=1)),
        (NOW - timedelta(hours=1), NOW - timedelta(hours=2)),
        (NOW - timedelta(hours=1), None),
    ],
)
def test_an_end_is_never_ahead_nor_before_the_start(
    starts_at: datetime, ends_at: datetime | None
) -> None:
    """A workspace whose clock is ahead keeps no alert alive, nor makes one that is refused."""
    read = posted(alert(1, AlertState.RESOLVED, starts_at=starts_at, ends_at=ends_at))
    told = [datetime.fromisoformat(read[text]) for text in ("startsAt", "endsAt")]
    assert told[0] <= told[1] <= NOW


def test_what_is_known_beside_the_rule_becomes_annotations() -> None:
    """Flapping, silences of ours and the address of the run are told, never as labels."""
    facts = {"url": "https://example.org/jobs/91"}
    read = posted(alert(1, is_flapping=True, muted_by=("silence:3",), facts=facts))
    assert read["annotations"]["flapping"] == "true"
    assert read["annotations"]["silenced_by"] == "silence:3"
    assert read["generatorURL"] == "https://example.org/jobs/91"
    assert read["labels"] == alert(1).labels


async def test_start_and_end_arrive_in_order(scene: OutputScene, receiver: PostReceiver) -> None:
    """Both are posted to the API of version 2, and other events are passed over."""
    await scene.start()
    await scene.tell(run_event(), fired(1), event_of(alert(1), EventType.ALERT_REMINDED, number=1))
    await scene.tell(resolved(1))
    await scene.until_delivered()
    told = [item for got in receiver.got for item in got.json()]
    assert {got.path for got in receiver.got} == {"/api/v2/alerts"}
    assert len(told) == 2
    assert told[1]["endsAt"] == ENDED.isoformat().replace("+00:00", "Z")
    assert (scene.count("delivered"), scene.count("skipped")) == (2, 2)


async def test_a_storm_takes_few_requests(scene: OutputScene, receiver: PostReceiver) -> None:
    """Five hundred alerts are told once each, at most 64 in one request."""
    await scene.tell(*[fired(number) for number in range(500)])
    await scene.start()
    await scene.until_delivered()
    told = [id_ for got in receiver.got for id_ in ids(got)]
    assert told == [str(number) for number in range(500)]
    assert max(len(ids(got)) for got in receiver.got) <= 64
    assert len(receiver.got) <= 20


@pytest.mark.parametrize("status", [500, 503, 429, 401, 404, 302, BROKEN])
async def test_an_alertmanager_that_cannot_take_them_is_asked_again(
    scene: OutputScene, receiver: PostReceiver, status: int
) -> None:
    """No alert is lost or becomes a dead letter, whatever it answers meanwhile."""
    receiver.answers.extend([status, status])
    await scene.start()
    await scene.tell(fired(1), fired(2))
    await scene.until_delivered()
    assert {id_ for got in receiver.taken for id_ in ids(got)} == {"1", "2"}
    assert await scene.letters() == []


@pytest.mark.parametrize("hours", [-1, 1])
async def test_an_alertmanager_with_another_time_is_told_by_its_own(
    scene: OutputScene, receiver: PostReceiver, hours: int
) -> None:
    """What its answer shows to have lapsed, or not to have ended, is posted again at once."""
    theirs = scene.clock.now() + timedelta(hours=hours)
    receiver.headers = {"Date": format_datetime(theirs, usegmt=True)}
    await scene.start()
    await scene.tell(fired(1))
    await scene.until_delivered()
    await scene.tell(resolved(2, ends_at=scene.clock.now()))
    await scene.until_delivered()
    lapses, ends = (
        datetime.fromisoformat(got.json()[0]["endsAt"])
        for got in (receiver.got[1], receiver.got[2])
    )
    assert abs(lapses - theirs - timedelta(minutes=4)) < timedelta(seconds=10)
    assert ends <= theirs + timedelta(seconds=10)
    assert [ids(got) for got in receiver.got] == [["1"], ["1"], ["2"]]


async def test_the_standing_says_whether_it_answers(
    scene: OutputScene, receiver: PostReceiver
) -> None:
    """After a failure it names the answer, until the next request goes well."""
    receiver.judge = lambda _: 503
    await scene.start()
    output = scene.output
    assert isinstance(output, AlertmanagerOutput)
    assert output.is_well
    await scene.tell(fired(1))
    await scene.until(lambda: not output.is_well)
    assert output.status.startswith("does not answer: answered 503")
    receiver.judge = None
    await scene.until_delivered()
    assert (output.is_well, output.status) == (True, "no request failed last")


async def test_one_that_is_refused_keeps_no_other_back(
    scene: OutputScene, receiver: PostReceiver
) -> None:
    """Of many in one request the refused one alone becomes a dead letter, with the reason."""
    receiver.judge = lambda body: 400 if b'"bad-label"' in body else 200
    receiver.text = 'invalid label "bad-label"'
    bad = fired(2, labels={**alert(2).labels, "bad-label": "x"})
    await scene.tell(fired(1), bad, fired(3))
    await scene.start()
    await scene.until_delivered()
    (letter,) = await scene.letters()
    assert letter.event.id == bad.id
    assert "bad-label" in letter.reason
    assert [id_ for got in receiver.taken for id_ in ids(got)] == ["1", "3"]


async def test_what_stands_is_told_again(tmp_path: Path, receiver: PostReceiver) -> None:
    """Each interval tells every alert that goes on, also one that fired in a former life."""
    async with OutputScene(
        tmp_path, lambda item: output_for(item, receiver, resend_seconds=0.05)
    ) as scene:
        untold = alert(3, is_notified=False, muted_by=("mute",))
        pending = alert(4, AlertState.PENDING, is_notified=False)
        scene.picture = AlertingSnapshot(alerts=(alert(1), alert(2), untold, pending))
        await scene.start()
        await receiver.until(lambda: len(receiver.taken) >= 3)
        assert {tuple(ids(got)) for got in receiver.taken} == {("1", "2")}


async def test_telling_again_never_revives_what_is_over(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An end that the log told counts, although the picture may lag behind it; it is repeated."""
    async with OutputScene(
        tmp_path, lambda item: output_for(item, receiver, resend_seconds=0.05)
    ) as scene:
        scene.picture = AlertingSnapshot(alerts=(alert(1),))
        await scene.start()
        await scene.tell(fired(1), resolved(1))
        await scene.until_delivered()
        told = len(receiver.got)
        await receiver.until(lambda: len(receiver.got) >= told + 3)
        ends = [item["endsAt"] for got in receiver.got[told:] for item in got.json()]
        assert set(ends) == {ENDED.isoformat().replace("+00:00", "Z")}


async def test_a_new_episode_is_told_again_after_an_old_end(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An end holds back the episode that it ended, not the next one."""
    async with OutputScene(
        tmp_path, lambda item: output_for(item, receiver, resend_seconds=0.05)
    ) as scene:
        await scene.start()
        await scene.tell(resolved(1))
        await scene.until_delivered()
        anew = BEGAN + timedelta(hours=1)
        scene.picture = AlertingSnapshot(alerts=(alert(1, starts_at=anew),))
        await receiver.until(
            lambda: any(
                item["endsAt"] > item["startsAt"] and item["startsAt"] != "2024-11-21T09:30:00Z"
                for got in receiver.taken
                for item in got.json()
            )
        )
        newest = receiver.taken[-1].json()[0]
        assert datetime.fromisoformat(newest["startsAt"]) == anew


async def test_a_refused_repetition_is_dropped(tmp_path: Path, receiver: PostReceiver) -> None:
    """Those beside it are repeated on, and it is not asked about again and again."""
    receiver.judge = lambda body: 400 if b'"2"' in body else 200
    async with OutputScene(
        tmp_path, lambda item: output_for(item, receiver, resend_seconds=0.05)
    ) as scene:
        scene.picture = AlertingSnapshot(alerts=(alert(1), alert(2)))
        await scene.start()
        await receiver.until(lambda: len(receiver.taken) >= 4)
        assert [got.status for got in receiver.got].count(400) == 2
        assert {tuple(ids(got)) for got in receiver.taken} == {("1",)}


async def test_each_alertmanager_has_its_own_position(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """One that is down for a while misses nothing, and the other need not wait for it."""
    async with OutputScene(tmp_path, lambda item: output_for(item, receiver)) as scene:
        await receiver.stop()
        await scene.start()
        await scene.tell(fired(1))
        await scene.until(lambda: scene.count("failed") > 0)
        await scene.stop()
        await receiver.start()
        await scene.start()
        await scene.until_delivered()
        assert [id_ for got in receiver.taken for id_ in ids(got)] == ["1"]
    urls = ("http://one:9093", "https://two/alerts/")
    assert consumers(AlertmanagerSettings(urls=urls)) == [
        "alertmanager:one:9093",
        "alertmanager:two:443/alerts",
    ]


async def test_credentials_are_sent_and_never_shown(
    tmp_path: Path, receiver: PostReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the standing nor a dead letter repeats what was sent to whoever refuses it."""
    hidden = {"username": "ada", "password": Secret("s3cret-pass")}
    receiver.judge = lambda _: 400
    pair = base64.b64encode(b"ada:s3cret-pass").decode()
    receiver.text = f"you sent Basic {pair}, or {pair}"
    async with OutputScene(tmp_path, lambda item: output_for(item, receiver, **hidden)) as scene:
        await scene.start()
        await scene.tell(fired(1))
        await scene.until_delivered()
        (letter,) = await scene.letters()
        assert receiver.got[0].headers["Authorization"] == f"Basic {pair}"
        assert letter.reason == "answered 400: you sent ***, or ***"
        shown = f"{letter.reason} {vars(scene.output)} {caplog.text}"
        assert "s3cret" not in shown
        assert pair not in shown
