"""Services as the library reaches them by its own notation, each with a real request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote_plus

import pytest
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.gotify import NotifyGotify

from tests.outputs.alert_histories import fired
from tests.outputs.channels import channel
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import PostReceiver


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a server in the place of any of them."""
    async with PostReceiver() as made:
        made.text = "{}"
        yield made


@pytest.mark.parametrize(
    ("notation", "path"),
    [
        ("ntfy://{host}/data-team", ""),
        ("mmost://{host}/abcdefghijklmnopqrstuvwx", "/hooks/abcdefghijklmnopqrstuvwx"),
        ("gotify://{host}/s3cr3t-t0ken", "/message"),
        ("matrix://s3cr3t-t0ken@{host}/?mode=slack", "/api/v1/matrix/hook/s3cr3t-t0ken"),
        ("json://{host}/alerts", "/alerts"),
        ("form://{host}/alerts", "/alerts"),
        ("xml://{host}/alerts", "/alerts"),
        ("rocket://s3cr3t/t0ken@{host}/#data", "/hooks/s3cr3t/t0ken"),
        ("apprise://{host}/s3cr3t-t0ken", "/notify"),
    ],
)
async def test_a_service_gets_the_message(
    tmp_path: Path, receiver: PostReceiver, notation: str, path: str
) -> None:
    """Each service receives one request with what failed, where and why."""
    url = notation.format(host=f"127.0.0.1:{receiver.port}")
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
    (request,) = receiver.accepted
    text = unquote_plus(request.body.decode())
    assert request.path.rstrip("/") == path.rstrip("/")
    assert "FAILED: orders 1" in text
    assert "no such file" in text


async def test_a_service_of_few_characters_gets_a_short_text(
    tmp_path: Path, receiver: PostReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the whole message is too long, the worst three are named, within the limit."""
    monkeypatch.setattr(NotifyGotify, "body_maxlen", 160)
    monkeypatch.setattr(NotifyGotify, "title_maxlen", 0)
    url = f"gotify://127.0.0.1:{receiver.port}/s3cr3t-t0ken"
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        await scenario.emit(*(fired(number) for number in range(2, 9)))
        await scenario.until_delivered()
    one, many = (request.json()["message"] for request in receiver.accepted)
    assert one == "FAILED: orders 1 (w): no such file"
    assert many.startswith("7 alerts: 7 FAILED (w)")
    assert "FAILED: orders 3 (w): no such file" in many
    assert all(len(text) <= 160 for text in (one, many))


async def test_a_service_without_subjects_does_not_read_twice(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """Where a service has no subjects, a single alert is named once, in the body."""
    url = f"mmost://127.0.0.1:{receiver.port}/abcdefghijklmnopqrstuvwx"
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1, templates={"description": "{error}"}))
        await scenario.until_delivered()
    (request,) = receiver.accepted
    assert request.json()["text"].count("FAILED: orders 1") == 1


@pytest.mark.parametrize(
    ("query", "name"), [("", "\\*orders\\* @\u2060all"), ("?format=text", "*orders* @all")]
)
async def test_a_name_is_no_markup_where_text_is_read_as_markdown(
    tmp_path: Path, receiver: PostReceiver, query: str, name: str
) -> None:
    """Mattermost gets Markdown with names escaped; a format that the URL names is kept."""
    url = f"mmost://127.0.0.1:{receiver.port}/abcdefghijklmnopqrstuvwx{query}"
    labels = {"alertname": "run_failed", "workspace": "w", "pipeline": "*orders* @all"}
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1, labels=labels))
        await scenario.until_delivered()
    (request,) = receiver.accepted
    assert f"FAILED: {name}" in request.json()["text"]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_name_is_no_mention_on_discord(
    tmp_path: Path, receiver: PostReceiver, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A flow that is called ``@everyone`` is a name there, in a subject above several lines too."""
    monkeypatch.setattr(
        NotifyDiscord, "notify_url", f"http://127.0.0.1:{receiver.port}/api/webhooks"
    )
    labels = {"alertname": "run_failed", "workspace": "w", "pipeline": "*orders* @everyone"}
    url = "discord://123456789/s3cr3t-t0ken"
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(*(fired(number, labels=labels) for number in range(count)))
        await scenario.until_delivered()
    (request,) = receiver.accepted
    content = request.json()["content"]
    assert content.count("FAILED: \\*orders\\* @\u2060everyone") == count
    assert "@everyone" not in content
