"""A former secret of callbacks is accepted beside the new one, and no longer than until its end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.callbacks.settings import CallbackSettings
from monitor.callbacks.task_secrets import task_secret
from monitor.model.secrets import Secret
from tests.callbacks.conftest import SECRET, ListenerScenario
from tests.clocks import ManualClock

FORMER = "the secret that webhook tasks had before"
NEVER_GIVEN = "\0 no callback carries this"
SECONDS = 3_600.0
A_FLOW = {"workspace": "acme", "flow_id": "7"}


@pytest.fixture
def callback_settings(clock: ManualClock) -> CallbackSettings:
    return CallbackSettings(
        secret=Secret(SECRET),
        former_secret=Secret(FORMER),
        former_secret_expires_at=clock.now() + timedelta(seconds=SECONDS),
    )


async def status(scenario: ListenerScenario, secret: str, number: int) -> int:
    """Return the status of a callback with this secret, once in the header, once in the path."""
    body = b'{"job_id":"%d","job_status":"Complete"}' % number
    path = "/hooks/acme/" + secret.replace(" ", "%20")
    statuses = {
        (await scenario.post(body, secret=secret)).status,
        (await scenario.post(body, secret=None, path=path)).status,
    }
    assert len(statuses) == 1
    return statuses.pop()


async def test_both_are_accepted_until_the_former_one_ends(
    scenario: ListenerScenario, clock: ManualClock
) -> None:
    """At its end the former one is refused, without a reload; the new one goes on."""
    for number in range(1, 4):
        assert await status(scenario, SECRET, number) == 204
        assert await status(scenario, FORMER, 10 + number) == 204
    await clock.advance(SECONDS - 1)
    assert await status(scenario, FORMER, 20) == 204
    await clock.advance(1)
    assert await status(scenario, FORMER, 21) == 404
    assert await status(scenario, SECRET, 22) == 204


async def test_an_end_without_a_former_secret_admits_none(
    clock: ManualClock, callback_settings: CallbackSettings
) -> None:
    """What stands in for a missing secret, to take the same time, is none itself."""
    end = callback_settings.former_secret_expires_at
    settings = CallbackSettings(former_secret_expires_at=end)
    for given in (NEVER_GIVEN, "", task_secret(Secret(NEVER_GIVEN), **A_FLOW).reveal()):
        for flow_id in (None, "7"):
            assert not settings.accepts(
                given, workspace="acme", task_flow_id=flow_id, now=clock.now()
            )


@pytest.mark.parametrize(
    ("former", "has_end", "problem"),
    [
        (FORMER, False, "former_secret: needs an end; add former_secret_expires_at"),
        (SECRET, True, "former_secret: is the secret itself"),
        (FORMER, True, None),
    ],
)
def test_what_does_not_fit_together_is_a_problem(
    callback_settings: CallbackSettings, former: str, has_end: object, problem: str | None
) -> None:
    """A former secret without an end would be accepted without a limit."""
    end = callback_settings.former_secret_expires_at
    settings = CallbackSettings(
        secret=Secret(SECRET),
        former_secret=Secret(former),
        former_secret_expires_at=end if has_end else None,
    )
    assert [text.startswith(str(problem)) for text in settings.problems()] == [True] * (
        problem is not None
    )
