"""A real Alertmanager: which alerts it holds, and which notifications it sends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from monitor.model.alerts import AlertingSnapshot
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from tests.app.eventually import eventually, pause
from tests.crash.cluster.watches import AlertmanagerWatch
from tests.outputs.alert_histories import BEGAN, alert, event_of, fired, resolved
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager

HOUR = timedelta(hours=1)


class Notified(PostReceiver):
    """Counts an Alertmanager's notifications: how often each alert as firing, as resolved."""

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        return Counter(
            (alert["labels"]["pipeline_id"], alert["status"])
            for request in self.requests
            for alert in request.json()["alerts"]
        )

    @property
    def most_together(self) -> int:
        """Of how many alerts the largest notification is."""
        return max((len(request.json()["alerts"]) for request in self.requests), default=0)

    def is_notified(self, numbers: range, status: str) -> bool:
        counts = self.counts  # read once: it is all that was ever received
        return all(counts[str(number), status] for number in numbers)


@pytest.fixture
async def notified() -> AsyncIterator[Notified]:
    """Return the receiver of the notifications."""
    async with Notified() as made:
        yield made


@pytest.fixture
async def alertmanager(tmp_path: Path, notified: Notified) -> AsyncIterator[Alertmanager]:
    """Return an Alertmanager that notifies of each pipeline separately."""
    async with Alertmanager(tmp_path, notify_url=notified.url, group_by="pipeline_id") as made:
        yield made


def output_to(url: str, **more: Any) -> Callable[[OutputScenario], AlertmanagerOutput]:
    """Return a function that builds the output to that Alertmanager."""
    settings = AlertmanagerSettings(urls=(url,), **QUICK, **more)
    return lambda scenario: AlertmanagerOutput(settings, scenario.parts)


async def active(url: str) -> dict[str, dict[str, Any]]:
    """Return the firing alerts of an Alertmanager, by the ids of the pipelines."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/v2/alerts") as answer,
    ):
        found = await answer.json()
    return {active_alert["labels"]["pipeline_id"]: active_alert for active_alert in found}


async def test_each_alert_notifies_once_of_its_start_and_once_of_its_end(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """Twenty fire, are repeated many times, and resolve: forty notifications and no more."""
    numbers = range(20)
    async with OutputScenario(
        tmp_path, output_to(alertmanager.url, resend_seconds=0.2)
    ) as scenario:
        await scenario.start()
        scenario.snapshot = AlertingSnapshot(alerts=tuple(alert(number) for number in numbers))
        await scenario.emit(*[fired(number) for number in numbers])
        await notified.until(lambda: notified.is_notified(numbers, "firing"))
        active_alerts = await active(alertmanager.url)
        assert set(active_alerts) == {str(number) for number in numbers}
        assert active_alerts["3"]["annotations"] == {"summary": "orders 3 failed", "run": "93"}
        await scenario.emit(*[resolved(number) for number in numbers])
        scenario.snapshot = AlertingSnapshot()
        await notified.until(lambda: notified.is_notified(numbers, "resolved"))
        await pause(0.7)  # ends are repeated meanwhile, and group intervals pass
        assert set(notified.counts.values()) == {1}
        assert await active(alertmanager.url) == {}


async def test_an_alert_that_is_repeated_does_not_lapse(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """It stays active while it is repeated; when the daemon is gone, it lapses."""
    async with OutputScenario(
        tmp_path, output_to(alertmanager.url, resend_seconds=0.15)
    ) as scenario:
        await scenario.start()
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1),))
        await scenario.emit(fired(1))
        await notified.until(lambda: notified.is_notified(range(1, 2), "firing"))
        await pause(0.9)
        assert set(await active(alertmanager.url)) == {"1"}
        await scenario.stop()
        await notified.until(lambda: notified.is_notified(range(1, 2), "resolved"))
        assert set(notified.counts.values()) == {1}


async def test_an_alert_that_is_posted_twice_notifies_once(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """A daemon that was killed before its position was stored posts the alert again, unnoticed."""
    numbers = range(1, 2)
    async with OutputScenario(tmp_path, output_to(alertmanager.url)) as first:
        await first.start()
        await first.emit(fired(1))
        await notified.until(lambda: notified.is_notified(numbers, "firing"))
        await first.emit(resolved(1))
        await notified.until(lambda: notified.is_notified(numbers, "resolved"))
    (tmp_path / "again").mkdir()
    async with OutputScenario(tmp_path / "again", output_to(alertmanager.url)) as second:
        await second.emit(fired(1), resolved(1))
        await second.start()
        await second.until_delivered()
        await pause(0.5)
    assert set(notified.counts.values()) == {1}


async def test_the_next_holder_takes_no_alert_back(
    tmp_path: Path, alertmanager: Alertmanager
) -> None:
    """It has to read all again that the former one has sent, and sends only what is so now."""
    now_firing = alert(1, starts_at=BEGAN + HOUR / 3)
    history = (fired(1), resolved(1), event_of(now_firing))
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(
                AlertmanagerWatch(alertmanager.url, find_daemon=lambda *_: "")
            )
            for _ in range(2)
        ]
        former, successor = [
            await stack.enter_async_context(OutputScenario(folder, output_to(relay.url)))
            for folder, relay in zip(two_folders(tmp_path), relays, strict=True)
        ]
        await former.start()
        for event in history:
            await former.emit(event)
            await former.until_delivered()
        await former.kill()
        successor.snapshot = AlertingSnapshot(alerts=(now_firing,))
        await successor.emit(*history)
        await successor.start()
        await successor.until_delivered()
        shown = (await active(alertmanager.url))["1"]
    counts = [
        Counter((sent["startsAt"], is_firing(sent)) for sent in sent_through(relay))
        for relay in relays
    ]
    began, begins = "2024-11-21T09:30:00Z", "2024-11-21T09:50:00Z"
    assert counts[0] == {(began, True): 1, (began, False): 1, (begins, True): 1}
    assert counts[1].keys() == {(begins, True)}
    assert datetime.fromisoformat(shown["startsAt"]) == now_firing.starts_at


def two_folders(folder: Path) -> list[Path]:
    folders = [folder / "former", folder / "successor"]
    for made in folders:
        made.mkdir()
    return folders


def sent_through(relay: AlertmanagerWatch) -> list[dict[str, Any]]:
    """Return the alerts that were posted through a relay, in their order."""
    return [json.loads(state.what) for state in relay.sent]


def is_firing(sent: dict[str, Any]) -> bool:
    return datetime.fromisoformat(sent["endsAt"]) > datetime.now(UTC)


async def test_a_second_alert_of_one_fingerprint_notifies_again(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """The same alert an hour later is no repetition, and resolves by itself."""
    async with OutputScenario(tmp_path, output_to(alertmanager.url)) as scenario:
        await scenario.start()
        numbers = range(1, 2)
        await scenario.emit(fired(1))
        await notified.until(lambda: notified.is_notified(numbers, "firing"))
        await scenario.emit(resolved(1))
        await notified.until(lambda: notified.is_notified(numbers, "resolved"))
        again = {"starts_at": BEGAN + HOUR / 3}
        await scenario.emit(fired(1, **again))
        await notified.until(lambda: notified.counts["1", "firing"] == 2)
        await scenario.emit(resolved(1, **again, ends_at=BEGAN + HOUR / 2))
        await notified.until(lambda: notified.counts["1", "resolved"] == 2)
        assert sum(notified.counts.values()) == 4


async def test_an_alertmanager_that_is_down_gets_all_later_and_the_other_at_once(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """Each has its own position; an outage of one does not delay the other."""
    async with AsyncExitStack() as stack:
        late = await stack.enter_async_context(Notified())
        second = Alertmanager(tmp_path, notify_url=late.url, group_by="pipeline_id")
        folders = [tmp_path / name for name in ("one", "other")]
        for folder in folders:
            folder.mkdir()
        up, down = [
            await stack.enter_async_context(OutputScenario(folder, output_to(server.url)))
            for folder, server in zip(folders, (alertmanager, second), strict=True)
        ]
        for scenario in (up, down):
            await scenario.start()
            await scenario.emit(fired(1), fired(2))
        await notified.until(lambda: notified.is_notified(range(1, 3), "firing"))
        await down.until(lambda: down.count("failed") > 0)
        assert late.requests == []
        await stack.enter_async_context(second)
        await late.until(lambda: late.is_notified(range(1, 3), "firing"))
        await down.until_delivered()
        assert await down.letters() == []


async def test_a_label_that_it_refuses_costs_no_other_alert(
    tmp_path: Path, notified: Notified, alertmanager: Alertmanager
) -> None:
    """The dead letter names the label, as the Alertmanager itself does."""
    bad = fired(2, labels={**alert(2).labels, "bad-label": "x"})
    async with OutputScenario(tmp_path, output_to(alertmanager.url)) as scenario:
        await scenario.emit(fired(1), bad, fired(3))
        await scenario.start()
        await scenario.until_delivered()
        (letter,) = await scenario.letters()
        assert letter.event.id == bad.id
        assert "bad-label" in letter.reason
        await eventually(
            lambda: notified.counts == {("1", "firing"): 1, ("3", "firing"): 1},
            why=lambda: notified.counts,
        )


async def test_a_storm_is_one_notification_where_the_route_groups(
    tmp_path: Path, notified: Notified
) -> None:
    """Five hundred alerts arrive, and Alertmanager names them together."""
    numbers = range(500)
    async with (
        Alertmanager(tmp_path, notify_url=notified.url, group_by="alertname") as grouping,
        OutputScenario(tmp_path, output_to(grouping.url)) as scenario,
    ):
        await scenario.emit(*[fired(number) for number in numbers])
        await scenario.start()
        # How many come before, each of more alerts, depends on how fast they are posted.
        await notified.until(lambda: notified.most_together == len(numbers))
        assert len(await active(grouping.url)) == len(numbers)
        assert len(notified.requests) < len(numbers) / 5
