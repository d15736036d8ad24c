"""A real Alertmanager: what it makes of what it is told, and whom it notifies of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from monitor.model.alerts import AlertingSnapshot
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.settings import AlertmanagerSettings
from tests.app.eventually import eventually, pause
from tests.outputs.alert_stories import BEGAN, alert, fired, resolved
from tests.outputs.output_scene import QUICK, OutputScene
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager

HOUR = timedelta(hours=1)


class Notified(PostReceiver):
    """Counts what an Alertmanager notified: how often each alert as firing, as resolved."""

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        return Counter(
            (alert["labels"]["pipeline_id"], alert["status"])
            for got in self.got
            for alert in got.json()["alerts"]
        )

    def is_notified(self, numbers: range, status: str) -> bool:
        return all(self.counts[str(number), status] for number in numbers)


@pytest.fixture
async def notified() -> AsyncIterator[Notified]:
    """Return the receiver at the end of the line."""
    async with Notified() as made:
        yield made


@pytest.fixture
async def alertmanager(tmp_path: Path, notified: Notified) -> AsyncIterator[Alertmanager]:
    """Return an Alertmanager that notifies of each pipeline by itself."""
    async with Alertmanager(tmp_path, notify_url=notified.url, group_by="pipeline_id") as made:
        yield made


def output_to(url: str, **more: Any) -> Callable[[OutputScene], AlertmanagerOutput]:
    """Return how the output to that Alertmanager is built."""
    settings = AlertmanagerSettings(urls=(url,), delivery=QUICK, **more)
    return lambda scene: AlertmanagerOutput(
        url,
        settings=settings,
        bus=scene.store,
        clock=scene.clock,
        metrics=scene.metrics,
        alerting=lambda: scene.picture,
    )


async def active(url: str) -> dict[str, dict[str, Any]]:
    """Return what an Alertmanager holds as firing, by the ids of the pipelines."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/v2/alerts") as answer,
    ):
        found = await answer.json()
    return {item["labels"]["pipeline_id"]: item for item in found}


async def test_each_alert_notifies_once_of_its_start_and_once_of_its_end(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """Twenty fire, are told again many times, and resolve: forty notifications and no more."""
    numbers = range(20)
    async with OutputScene(tmp_path, output_to(alertmanager.url, resend_seconds=0.2)) as scene:
        await scene.start()
        scene.picture = AlertingSnapshot(alerts=tuple(alert(number) for number in numbers))
        await scene.tell(*[fired(number) for number in numbers])
        await notified.until(lambda: notified.is_notified(numbers, "firing"))
        held = await active(alertmanager.url)
        assert set(held) == {str(number) for number in numbers}
        assert held["3"]["annotations"] == {"summary": "orders 3 failed", "run": "93"}
        await scene.tell(*[resolved(number) for number in numbers])
        scene.picture = AlertingSnapshot()
        await notified.until(lambda: notified.is_notified(numbers, "resolved"))
        await pause(0.7)  # ends are told again meanwhile, and group intervals go by
        assert set(notified.counts.values()) == {1}
        assert await active(alertmanager.url) == {}


async def test_an_alert_that_is_told_again_does_not_lapse(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """It outlives its lapse for as long as it goes on; a daemon that is gone lets it lapse."""
    async with OutputScene(tmp_path, output_to(alertmanager.url, resend_seconds=0.15)) as scene:
        await scene.start()
        scene.picture = AlertingSnapshot(alerts=(alert(1),))
        await scene.tell(fired(1))
        await notified.until(lambda: notified.is_notified(range(1, 2), "firing"))
        await pause(0.9)
        assert set(await active(alertmanager.url)) == {"1"}
        await scene.stop()
        await notified.until(lambda: notified.is_notified(range(1, 2), "resolved"))
        assert set(notified.counts.values()) == {1}


async def test_what_is_told_twice_notifies_once(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """A daemon that was killed before its position was stored tells an episode again, unheard."""
    one = range(1, 2)
    async with OutputScene(tmp_path, output_to(alertmanager.url)) as first:
        await first.start()
        await first.tell(fired(1))
        await notified.until(lambda: notified.is_notified(one, "firing"))
        await first.tell(resolved(1))
        await notified.until(lambda: notified.is_notified(one, "resolved"))
    (tmp_path / "again").mkdir()
    async with OutputScene(tmp_path / "again", output_to(alertmanager.url)) as second:
        await second.tell(fired(1), resolved(1))
        await second.start()
        await second.until_delivered()
        await pause(0.5)
    assert set(notified.counts.values()) == {1}


async def test_a_second_episode_notifies_anew(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """The same alert an hour later is no repetition, and its end is its own."""
    async with OutputScene(tmp_path, output_to(alertmanager.url)) as scene:
        await scene.start()
        one = range(1, 2)
        await scene.tell(fired(1))
        await notified.until(lambda: notified.is_notified(one, "firing"))
        await scene.tell(resolved(1))
        await notified.until(lambda: notified.is_notified(one, "resolved"))
        anew = {"starts_at": BEGAN + HOUR / 3}
        await scene.tell(fired(1, **anew))
        await notified.until(lambda: notified.counts["1", "firing"] == 2)
        await scene.tell(resolved(1, **anew, ends_at=BEGAN + HOUR / 2))
        await notified.until(lambda: notified.counts["1", "resolved"] == 2)
        assert sum(notified.counts.values()) == 4


async def test_one_that_is_down_hears_all_later_and_the_other_at_once(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """Each has its own position; an outage of one costs the other nothing."""
    async with AsyncExitStack() as stack:
        late = await stack.enter_async_context(Notified())
        other = Alertmanager(tmp_path, notify_url=late.url, group_by="pipeline_id")
        folders = [tmp_path / name for name in ("one", "other")]
        for folder in folders:
            folder.mkdir()
        up, down = [
            await stack.enter_async_context(OutputScene(folder, output_to(item.url)))
            for folder, item in zip(folders, (alertmanager, other), strict=True)
        ]
        for scene in (up, down):
            await scene.start()
            await scene.tell(fired(1), fired(2))
        await notified.until(lambda: notified.is_notified(range(1, 3), "firing"))
        await down.until(lambda: down.count("failed") > 0)
        assert late.got == []
        await stack.enter_async_context(other)
        await late.until(lambda: late.is_notified(range(1, 3), "firing"))
        await down.until_delivered()
        assert await down.letters() == []


async def test_a_label_that_it_refuses_costs_no_other_alert(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """The dead letter names the label, as the Alertmanager itself does."""
    bad = fired(2, labels={**alert(2).labels, "bad-label": "x"})
    async with OutputScene(tmp_path, output_to(alertmanager.url)) as scene:
        await scene.tell(fired(1), bad, fired(3))
        await scene.start()
        await scene.until_delivered()
        (letter,) = await scene.letters()
        assert letter.event.id == bad.id
        assert "bad-label" in letter.reason
        await eventually(
            lambda: notified.counts == {("1", "firing"): 1, ("3", "firing"): 1},
            why=lambda: notified.counts,
        )


async def test_a_storm_is_one_notification_where_the_route_groups(
    tmp_path: Path, notified: Notified
) -> None:
    """Five hundred alerts arrive one each; the grouping is Alertmanager's."""
    numbers = range(500)
    async with (
        Alertmanager(tmp_path, notify_url=notified.url, group_by="alertname") as grouping,
        OutputScene(tmp_path, output_to(grouping.url)) as scene,
    ):
        await scene.tell(*[fired(number) for number in numbers])
        await scene.start()
        await notified.until(lambda: notified.is_notified(numbers, "firing"))
        assert len(await active(grouping.url)) == 500
        assert len(notified.got) <= 3  # what comes after the first 100 ms is a group's change
