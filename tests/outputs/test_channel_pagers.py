"""Pagers: each alert is an incident of its own, which its end resolves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from apprise.plugins import opsgenie, pagerduty

from monitor.outputs.notify.output import ChannelOutput
from tests.outputs.alert_histories import acknowledged, alert, fired, resolved
from tests.outputs.channels import channel
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import PostReceiver

PAGERDUTY = f"pagerduty://{'a' * 32}@{'b' * 20}/monitor"
OPSGENIE = "opsgenie://12345678-1234-1234-1234-123456789012"


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostReceiver]:
    """Return a server in the place of both services."""
    async with PostReceiver() as made:
        made.text = '{"status": "success", "requestId": "r"}'
        for lookup in (pagerduty.PAGERDUTY_API_LOOKUP, opsgenie.OPSGENIE_API_LOOKUP):
            for region in list(lookup):
                monkeypatch.setitem(lookup, region, made.url)
        for plugin in (pagerduty.NotifyPagerDuty, opsgenie.NotifyOpsgenie):
            monkeypatch.setattr(plugin, "request_rate_per_sec", 0)  # no waits between requests
        yield made


def bodies(receiver: PostReceiver) -> list[dict[str, Any]]:
    return [request.json() for request in receiver.accepted]


async def test_pagerduty_gets_an_incident_for_each_alert(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """Two alerts of one group are two incidents, by their fingerprints; an end resolves its own."""
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, PAGERDUTY)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1), fired(2))
        await scenario.until_delivered()
        await scenario.emit(resolved(2))
        await scenario.until_delivered()
    assert [(body["event_action"], body["dedup_key"]) for body in bodies(receiver)] == [
        ("trigger", alert(1).fingerprint),
        ("trigger", alert(2).fingerprint),
        ("resolve", alert(2).fingerprint),
    ]


async def test_pagerduty_gets_nothing_of_an_acknowledgement(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """The library cannot acknowledge there, and anything else would trigger the incident again."""
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, PAGERDUTY)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1), acknowledged(1))
        await scenario.until_delivered()
        await scenario.emit(acknowledged(1, count=2), resolved(1))
        await scenario.until_delivered()
        assert isinstance(scenario.output, ChannelOutput)
        why = scenario.output.why_not_taken(acknowledged(1))
    assert [body["event_action"] for body in bodies(receiver)] == ["trigger", "resolve"]
    assert why == "the library cannot acknowledge incidents of this service"


async def test_opsgenie_is_told_that_people_know(tmp_path: Path, receiver: PostReceiver) -> None:
    """The alert there is acknowledged, with who and why; its end closes it as before."""
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, OPSGENIE)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1), acknowledged(1), resolved(1))
        await scenario.until_delivered()
    first, known, over = receiver.accepted
    assert first.json()["alias"] == alert(1).fingerprint
    assert known.path.endswith("/r/acknowledge")
    assert "Acknowledged by: Ada\nComment: on it" in known.json()["note"]
    assert over.path.endswith("/r/close")


async def test_opsgenie_gets_an_alert_of_its_own_for_each(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """An alert is known to Opsgenie by its fingerprint, by which its end closes it."""
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, OPSGENIE)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        await scenario.emit(resolved(1))
        await scenario.until_delivered()
    first, *_ = receiver.accepted
    assert first.json()["alias"] == alert(1).fingerprint
    assert any("close" in request.path for request in receiver.accepted)
