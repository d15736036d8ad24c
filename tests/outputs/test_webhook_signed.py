"""Signed webhooks: what a receiver can verify, and what happens to events it does not accept."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from monitor.model.events import EventType
from monitor.model.secrets import Secret
from monitor.outputs.webhook.output import WebhookOutput, signed_headers
from monitor.outputs.webhook.settings import WebhookSettings
from tests.certificates import Certificates
from tests.outputs.alert_histories import alert, event_of, fired, resolved
from tests.outputs.histories import detailed_event, run_event, workspace_event
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import BROKEN, DEAF, PostReceiver, ReceivedRequest


def secret_of(byte: str) -> str:
    return "whsec_" + base64.b64encode(byte.encode() * 32).decode()


OLD, NEW, OTHER = secret_of("o"), secret_of("n"), secret_of("x")


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a receiver of webhooks."""
    async with PostReceiver() as made:
        yield made


@pytest.fixture
async def scenario(tmp_path: Path, receiver: PostReceiver) -> AsyncIterator[OutputScenario]:
    """Return a scenario with one webhook, whose output is not yet running."""
    async with OutputScenario(tmp_path, lambda scenario: output_for(scenario, receiver)) as made:
        yield made


def output_for(scenario: OutputScenario, receiver: PostReceiver, **more: Any) -> WebhookOutput:
    settings = WebhookSettings(
        url=f"{receiver.url}/hook?key=hidden",
        secret=Secret(NEW),
        timeout_seconds=2,
        **QUICK,
    )
    return WebhookOutput(msgspec.structs.replace(settings, **more), scenario.parts)


def id_of(body: bytes) -> str:
    return str(json.loads(body)["id"])


def ids(requests: list[ReceivedRequest]) -> list[str]:
    return [id_of(request.body) for request in requests]


async def test_a_receiver_can_verify_a_request(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """The specification's own library accepts signature and age; the body is the CloudEvent."""
    await scenario.start()
    await scenario.emit(fired(1))
    await scenario.until_delivered()
    (request,) = receiver.requests
    message = Webhook(NEW).verify(request.body, request.headers)
    assert message["type"] == "dataprep.alert.fired.v1"
    assert request.headers["webhook-id"] == message["id"] == fired(1).id
    assert request.headers["Content-Type"] == "application/cloudevents+json"
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(request.body + b" ", request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(request.body, request.headers)


async def test_both_keys_sign_while_receivers_change_over(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A receiver can verify with the former key or with the new one."""
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, former_secret=Secret(OLD))
    ) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        (request,) = receiver.requests
        accepted = [Webhook(key).verify(request.body, request.headers)["id"] for key in (OLD, NEW)]
        assert accepted == [fired(1).id, fired(1).id]


@given(
    event_id=st.text(min_size=1, max_size=40),
    body=st.binary(max_size=200),
    key=st.binary(min_size=24, max_size=64),
)
def test_any_body_under_any_id_can_be_verified(event_id: str, body: bytes, key: bytes) -> None:
    """The signature is that of the specification, and the id always fits into a header."""
    headers = signed_headers(body, event_id=event_id, at=datetime.now(UTC), keys=[key])
    assert headers["webhook-id"].isascii()
    assert headers["webhook-id"].isprintable()
    expected = Webhook(key).sign(
        headers["webhook-id"],
        datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC),
        body.decode("latin-1") if body.isascii() else "",
    )
    assert headers["webhook-signature"] == expected or not body.isascii()


async def test_only_configured_types_are_sent(tmp_path: Path, receiver: PostReceiver) -> None:
    """Alerts by default; patterns choose among all types, and leave some out."""
    events = (
        run_event(),
        detailed_event(),
        workspace_event(),
        fired(1),
        event_of(alert(1), EventType.ALERT_SILENCED, number=1),
    )
    async with OutputScenario(
        tmp_path,
        lambda scenario: output_for(
            scenario, receiver, events=("run.*", "!run.detailed", "alert.fired")
        ),
    ) as scenario:
        await scenario.start()
        await scenario.emit(*events)
        await scenario.until_delivered()
        assert sorted(ids(receiver.requests)) == sorted([run_event().id, fired(1).id])
        assert scenario.count("skipped") == 3


@pytest.mark.parametrize("status", [500, 502, 429, 408, 425, 401, 403, 404, 301, BROKEN])
async def test_a_receiver_that_fails_is_retried(
    scenario: OutputScenario, receiver: PostReceiver, status: int
) -> None:
    """The same id and the same body are sent again, and nothing becomes a dead letter."""
    receiver.answers.extend([status] * 2)
    await scenario.start()
    await scenario.emit(fired(1))
    await scenario.until_delivered()
    assert set(ids(receiver.requests)) == {fired(1).id}
    assert len({request.body for request in receiver.requests}) == 1
    assert len(receiver.accepted) == 1
    assert await scenario.letters() == []


@pytest.mark.parametrize("status", [400, 409, 410, 413, 415, 422])
async def test_an_event_that_is_refused_for_good_becomes_a_dead_letter(
    scenario: OutputScenario, receiver: PostReceiver, status: int
) -> None:
    """The reason is the status alone; it has neither the address nor the text of the answer."""
    receiver.text = "hidden words"
    receiver.status_for = lambda body: status if id_of(body) == fired(1).id else 200
    await scenario.start()
    await scenario.emit(fired(1), fired(2))
    await scenario.until_delivered()
    (letter,) = await scenario.letters()
    assert (letter.event.id, letter.reason) == (fired(1).id, f"answered {status}")
    assert ids(receiver.accepted) == [fired(2).id]


async def test_an_event_that_always_fails_does_not_block_others(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """While other events are accepted it is given up after the configured attempts."""
    receiver.status_for = lambda body: 500 if id_of(body) == fired(0).id else 200
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, window=3, attempts=5)
    ) as scenario:
        await scenario.start()
        await scenario.emit(fired(0))
        emitted = 0
        while scenario.count("refused") == 0:
            emitted += 1
            await scenario.emit(fired(emitted))
            await receiver.until(lambda: len(receiver.accepted) >= emitted)  # noqa: B023 - read at once
        await scenario.until_delivered()
        (letter,) = await scenario.letters()
        assert letter.event.id == fired(0).id
        assert 5 <= emitted <= 20


async def test_a_silent_receiver_is_given_up_in_time(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A missing answer is a failure like any other, and the event is sent again."""
    receiver.answers.append(DEAF)
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, timeout_seconds=1)
    ) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        assert ids(receiver.accepted) == [fired(1).id]
        assert scenario.count("failed") == 1


async def test_retry_after_is_respected_within_bounds(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """Retry-After is waited for before anything else is sent."""
    receiver.answers.append(429)
    receiver.headers = {"Retry-After": "0.3"}
    await scenario.start()
    await scenario.emit(fired(1))
    began = asyncio.get_running_loop().time()
    await scenario.until_delivered()
    assert asyncio.get_running_loop().time() - began >= 0.3
    assert len(receiver.requests) == 2


async def test_an_alert_stays_in_order_while_many_are_sent(
    scenario: OutputScenario, receiver: PostReceiver
) -> None:
    """Several requests are under way, but an end never overtakes its start."""
    events = [event for number in range(20) for event in (fired(number), resolved(number))]
    receiver.pause_seconds = 0.01
    await scenario.emit(*events)
    await scenario.start()
    await scenario.until_delivered()
    sent = ids(receiver.requests)
    assert all(sent.index(fired(n).id) < sent.index(resolved(n).id) for n in range(20))
    assert len(sent) == len(events)
    assert receiver.most_at_once > 1


async def test_an_unacknowledged_event_is_sent_again(
    tmp_path: Path, receiver: PostReceiver
) -> None:
    """A daemon that is killed between request and answer sends it again, under the same id."""
    settings = {"timeout_seconds": 10, "window": 8}
    async with OutputScenario(
        tmp_path, lambda scenario: output_for(scenario, receiver, **settings)
    ) as scenario:
        receiver.answers.append(DEAF)
        await scenario.start()
        await scenario.emit(fired(1))
        await receiver.until(lambda: len(receiver.requests) == 1)
        await scenario.kill()
        await scenario.start()
        await scenario.until_delivered()
        assert ids(receiver.requests) == [fired(1).id, fired(1).id]


async def test_a_certificate_is_believed_by_the_authority_of_the_settings(tmp_path: Path) -> None:
    """Without that authority nothing is sent, unless the check is switched off."""
    certificates = Certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server, certificates.key_of(certificates.server))
    chosen: list[dict[str, Any]] = [
        {},
        {"ca_file": str(tmp_path / "missing.pem")},
        {"ca_file": str(certificates.authority)},
        {"verify_tls": False},
    ]
    async with PostReceiver(tls=tls) as receiver:

        def make(scenario: OutputScenario) -> WebhookOutput:
            return output_for(scenario, receiver, **chosen[0])

        async with OutputScenario(tmp_path, make) as scenario:
            await scenario.emit(fired(1))
            for reason in ("no connection: ", "ca_file cannot be used: "):
                await scenario.start()
                await scenario.until(lambda: scenario.count("failed") > 0)
                assert isinstance(scenario.output, WebhookOutput)
                assert scenario.output.status.startswith(f"does not answer: {reason}")
                await scenario.stop()
                del chosen[0]
            for number in (1, 2):
                await scenario.start()
                await scenario.emit(fired(number + 1))
                await scenario.until_delivered()
                assert len(receiver.accepted) == number + 1
                await scenario.stop()
                chosen = chosen[1:]


async def test_keys_and_address_are_never_shown(
    scenario: OutputScenario, receiver: PostReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """No log line, status or failure contains a key or the address, which may contain one."""
    receiver.answers.extend([500, BROKEN, 404])
    await scenario.start()
    await scenario.emit(fired(1))
    await scenario.until_delivered()
    assert isinstance(scenario.output, WebhookOutput)
    shown = f"{caplog.text} {scenario.output.status} {vars(scenario.output)}"
    assert NEW not in shown
    assert "key=hidden" not in shown
