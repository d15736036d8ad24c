"""``doctor`` checks whether Alertmanagers and the webhook's receiver accept alerts."""

from __future__ import annotations

import base64
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.webhook.settings import WebhookSettings
from tests.cli.doctor_scenario import outcomes, run_checks
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager, free_port

KEY = Secret(f"whsec_{base64.b64encode(bytes(range(32))).decode()}")


async def test_a_real_alertmanager_accepts_the_check(tmp_path: Path) -> None:
    """An empty list is answered well, and no notification is sent for it."""
    async with (
        PostReceiver() as receiver,
        Alertmanager(tmp_path, notify_url=receiver.url, group_by="alertname") as alertmanager,
    ):
        settings = AlertmanagerSettings(urls=(alertmanager.url,))
        report = await run_checks(tmp_path, alertmanager=settings)
        subject = f"alertmanager 127.0.0.1:{alertmanager.port}"
        assert report[subject].found == "accepted an empty list of alerts"
        assert set(outcomes(report).values()) == {"ok"}
        assert receiver.requests == []


@pytest.mark.parametrize("status", [401, 404, 503])
async def test_a_receiver_that_refuses_fails_and_the_others_are_checked(
    tmp_path: Path, status: int
) -> None:
    """Each has a line of its own, with the answer and the hint."""
    async with PostReceiver() as well, PostReceiver() as ill:
        ill.status_for = lambda _: status
        settings = AlertmanagerSettings(urls=(well.url, ill.url), token=Secret("s3cret"))
        report = await run_checks(tmp_path, alertmanager=settings)
        assert report[f"alertmanager 127.0.0.1:{well.port}"].outcome == "ok"
        line = report[f"alertmanager 127.0.0.1:{ill.port}"]
        assert (line.outcome, line.found) == ("failed", f"accepts no alerts: answered {status}")
        assert "[alertmanager]" in (line.hint or "")
        assert [item.body for item in (*well.requests, *ill.requests)] == [b"[]", b"[]"]
        assert "s3cret" not in str(report)


async def test_a_clock_that_is_off_is_reported(tmp_path: Path) -> None:
    """It does no harm, but a reader of time stamps should know."""
    async with PostReceiver() as receiver:
        theirs = SystemClock().now() + timedelta(hours=1)
        receiver.headers = {"Date": format_datetime(theirs, usegmt=True)}
        report = await run_checks(tmp_path, alertmanager=AlertmanagerSettings(urls=(receiver.url,)))
        line = report[f"alertmanager 127.0.0.1:{receiver.port}"]
        assert line.outcome == "ok"
        assert "s from ours, which is allowed for" in line.found


async def test_the_webhook_is_connected_to_and_posted_nothing(tmp_path: Path) -> None:
    """A receiver could not distinguish a test from an alert."""
    async with PostReceiver() as receiver:
        settings = WebhookSettings(url=f"{receiver.url}/hook", secret=KEY)
        report = await run_checks(tmp_path, webhook=settings)
        assert report["webhook"].found == "accepts connections; nothing was posted"
        assert report["webhook TLS"].outcome == "ok"
        assert receiver.requests == []


async def test_a_webhook_that_is_not_there_fails(tmp_path: Path) -> None:
    """The reason is reported, and no part of the address that could be a secret."""
    url = f"http://127.0.0.1:{free_port()}/hook?key=hidden"
    report = await run_checks(tmp_path, webhook=WebhookSettings(url=url, secret=KEY))
    assert report["webhook"].outcome == "failed"
    assert report["webhook"].found.startswith("no connection:")
    assert "hidden" not in str(report)


async def test_unconfigured_parts_are_not_mentioned(tmp_path: Path) -> None:
    """Both are a choice."""
    report = await run_checks(tmp_path)
    assert not [subject for subject in report if subject.startswith(("alertmanager", "webhook"))]
