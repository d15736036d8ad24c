"""Which parts of a path are a workspace and a secret, and that every other path is refused."""

from __future__ import annotations

import pytest

from monitor.callbacks.settings import CallbackSettings
from monitor.model.secrets import Secret
from tests.callbacks.conftest import ListenerScenario
from tests.callbacks.test_listener_socket import Socket, status_of

AWKWARD = "a/b%c{d}?e#f g"
BODY = b'{"job_id":"9","job_status":"Complete"}'


@pytest.fixture
def callback_settings() -> CallbackSettings:
    return CallbackSettings(secret=Secret(AWKWARD))


@pytest.fixture
def socket(scenario: ListenerScenario) -> Socket:
    return Socket(port=scenario.port, registry=scenario.registry)


async def send(socket: Socket, path: str, *, secret: str = "") -> bytes:
    """Send a callback to exactly this path, without any normalisation."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Monitor-Secret: {secret}\r\nConnection: close\r\n"
    return await socket.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)


@pytest.mark.parametrize(
    "spelling",
    [
        "a%2Fb%25c%7Bd%7D%3Fe%23f%20g",
        "a%2fb%25c%7bd%7d%3fe%23f%20g",
        "%61%2F%62%25c{d}%3Fe%23f%20g?x",
    ],
)
async def test_a_secret_in_the_path_may_contain_anything(socket: Socket, spelling: str) -> None:
    """An encoded secret is decoded once, in any spelling, and a slash in it divides nothing."""
    assert status_of(await send(socket, f"/hooks/acme/{spelling}")) == 204
    assert status_of(await send(socket, f"/hooks/acme/{spelling.replace('%25', '%2525')}")) == 404


@pytest.mark.parametrize(
    "path", ["/hooks/acme", "/hooks/%61cme", "/hooks/acme?x=/y", "http://x/hooks/acme"]
)
async def test_the_workspace_is_found_however_it_is_spelled(socket: Socket, path: str) -> None:
    """An encoded letter, a query and a whole address name the same workspace."""
    assert status_of(await send(socket, path, secret=AWKWARD)) == 204


@pytest.mark.parametrize(
    "path",
    [
        "/hooks",
        "/hooks/",
        "/hooks/acme/",
        "/hooks//acme",
        "//hooks/acme",
        "/hooks%2Facme",
        "/hooks/acme%2F",
        "/hooks/acme/wrong",
        "/hooks/acme/wrong/",
        "/hooks/acme/a/b",
        "/hooks/acme%0A",
        "/Hooks/acme",
        "/x/hooks/acme",
        "/%0A",
    ],
)
async def test_every_other_path_gets_the_same_answer(
    scenario: ListenerScenario, socket: Socket, path: str
) -> None:
    """Another path is like a wrong secret: one empty answer, with the right secret or not."""
    answers = [
        await send(socket, path, secret=AWKWARD),
        await send(socket, "/hooks/acme", secret="wrong"),
    ]

    assert [status_of(answer) for answer in answers] == [404, 404]
    assert _without_date(answers[0]) == _without_date(answers[1])
    assert scenario.count("wrong_secret") == 2


def _without_date(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"Date:")]
