"""The listener for callbacks: accepted callbacks are durable, other requests get no content."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

import pytest

from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.settings import CallbackSettings, SignatureMode
from monitor.model.secrets import Secret
from tests.callbacks.conftest import SECRET, ListenerScenario
from tests.clocks import ManualClock

BODY = b'{"job_id":"9","job_status":"Complete"}'
SIGNING = "a key for signatures"


async def test_an_accepted_callback_is_in_the_inbox(
    scenario: ListenerScenario, bus: SqliteBus
) -> None:
    """204 means that the callback is durable."""
    response = await scenario.post(BODY)

    assert (response.status, response.body) == (204, b"")
    assert [stored.run_id for stored in (await bus.inbox("acme", limit=10)).callbacks] == ["9"]
    assert scenario.count("accepted") == 1


async def test_a_repeated_callback_is_counted_and_not_kept(
    scenario: ListenerScenario, bus: SqliteBus
) -> None:
    """The same callback again is answered 204 and stored once."""
    statuses = [(await scenario.post(BODY)).status for _ in range(3)]

    assert statuses == [204, 204, 204]
    assert len((await bus.inbox("acme", limit=10)).callbacks) == 1
    assert scenario.count("duplicate") == 2


async def test_a_secret_in_the_path_serves_tasks_made_by_hand(
    scenario: ListenerScenario,
) -> None:
    """A sender that cannot set headers may put the secret into the path."""
    path = "/hooks/acme/" + SECRET.replace(" ", "%20")

    assert (await scenario.post(BODY, path=path, secret=None)).status == 204


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("/hooks/acme", "wrong"),
        ("/hooks/acme", None),
        ("/hooks/acme/wrong", None),
        ("/hooks/other", SECRET),
        ("/hooks", SECRET),
        ("/", SECRET),
    ],
)
async def test_a_request_without_the_secret_is_not_found(
    scenario: ListenerScenario, bus: SqliteBus, path: str, secret: str | None
) -> None:
    """A wrong secret, workspace or path is 404, whatever was wrong; nothing is stored."""
    assert (await scenario.post(BODY, path=path, secret=secret)).status == 404
    assert (await bus.inbox("acme", limit=10)).callbacks == ()


@pytest.mark.parametrize(
    ("body", "content_type", "status", "outcome"),
    [
        (b"{" + b" " * 70_000 + b"}", "application/json", 413, "too_large"),
        (BODY, "image/png", 415, "bad_payload"),
        (b"{not json", "application/json", 400, "bad_payload"),
        (b'{"job_id":"$jobId"}', "application/json", 400, "bad_payload"),
        (b'{"jobId":"abc","jobStatus":"Failed"}', "application/json", 400, "bad_payload"),
    ],
)
async def test_an_invalid_callback_is_refused_without_an_echo(
    scenario: ListenerScenario,
    bus: SqliteBus,
    body: bytes,
    content_type: str,
    status: int,
    outcome: str,
) -> None:
    """Each refusal has its status and its count; the body is never echoed or stored."""
    response = await scenario.post(body, content_type=content_type)

    assert response.status == status
    assert response.body == b""
    assert scenario.count(outcome) == 1
    assert (await bus.inbox("acme", limit=10)).callbacks == ()


async def test_every_answer_has_the_headers(scenario: ListenerScenario) -> None:
    """An accepted callback and each refusal say what they are, and no version of the server."""
    for answer in (
        await scenario.post(BODY),
        await scenario.post(b"{"),
        await scenario.post(BODY, secret="wrong"),
    ):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Server"] == "dataprep-monitor"


async def test_a_closed_store_is_overload_not_success(
    scenario: ListenerScenario, bus: SqliteBus
) -> None:
    """A callback that cannot be made durable is answered 503 with a time to come back."""
    await bus.close()
    response = await scenario.post(BODY)

    assert response.status == 503
    assert int(response.headers["Retry-After"]) > 0
    assert scenario.count("overloaded") == 1


async def test_the_registrars_test_is_answered_and_not_stored(
    scenario: ListenerScenario, bus: SqliteBus
) -> None:
    """The registrar's test of the listener stores nothing."""
    assert (await scenario.post(b'{"dataprep_monitor_test":"acme"}')).status == 204
    assert (await bus.inbox("acme", limit=10)).callbacks == ()
    assert scenario.count("test") == 1


async def test_a_burst_is_stored_whole(scenario: ListenerScenario, bus: SqliteBus) -> None:
    """Two hundred concurrent callbacks are all answered 204 and all stored."""
    bodies = [b'{"job_id":"%d","job_status":"Complete"}' % number for number in range(1, 201)]
    answers = await asyncio.gather(*(scenario.post(body) for body in bodies))

    assert {answer.status for answer in answers} == {204}
    assert len((await bus.inbox("acme", limit=1_000)).callbacks) == 200


class TestSignatures:
    """The assumed scheme, as a second control."""

    @pytest.fixture(params=list(SignatureMode))
    def callback_settings(self, request: pytest.FixtureRequest) -> CallbackSettings:
        return CallbackSettings(
            secret=Secret(SECRET), signing_secret=Secret(SIGNING), signature=request.param
        )

    async def test_a_wrong_signature_is_refused_only_where_required(
        self, scenario: ListenerScenario, callback_settings: CallbackSettings
    ) -> None:
        """Off ignores, observe counts and accepts, require answers 401."""
        status = (
            await scenario.post(BODY, headers={"X-Webhook-Signature": "t=1,sha256=00"})
        ).status
        mode = callback_settings.signature

        assert status == (401 if mode is SignatureMode.REQUIRE else 204)
        assert scenario.count("bad_signature") == (0 if mode is SignatureMode.OFF else 1)

    async def test_a_right_signature_passes_in_every_mode(
        self, scenario: ListenerScenario, clock: ManualClock
    ) -> None:
        """The assumed scheme is accepted, with the stamp in milliseconds."""
        stamp = str(int(clock.now().timestamp() * 1000))
        digest = hmac.new(SIGNING.encode(), stamp.encode() + b"." + BODY, hashlib.sha256)
        header = f"t={stamp},sha256={digest.hexdigest()}"
        response = await scenario.post(BODY, headers={"X-Webhook-Signature": header})

        assert response.status == 204
        assert scenario.count("bad_signature") == 0
