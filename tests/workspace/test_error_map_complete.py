"""Every exception that aiohttp's client can raise becomes one of our errors."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from itertools import chain

import aiohttp
import pytest
from aiohttp import client_exceptions, http_exceptions
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from monitor.model.clock import SystemClock
from monitor.model.errors import OutputUnavailableError, WorkspaceUnreachableError
from monitor.outputs.http import HttpReceiver
from monitor.outputs.settings import ReceiverSettings
from monitor.workspace.settings import WorkspaceSettings
from monitor.workspace.transport import Transport
from tests.workspace.scripted import answer, serving

# Only a WebSocket gets these, and the monitor opens none.
OF_WEBSOCKETS = {"WSMessageTypeError", "WSServerHandshakeError"}
CLASSES = sorted(
    {
        member
        for member in chain(vars(client_exceptions).values(), vars(http_exceptions).values())
        if inspect.isclass(member)
        and issubclass(member, Exception)
        and member.__module__.startswith("aiohttp.")
        and member.__name__ not in OF_WEBSOCKETS
    },
    key=lambda cls: cls.__name__,
)
KEY = ConnectionKey("localhost", 443, True, True, None, None, None)
REQUEST = aiohttp.RequestInfo(URL("http://localhost"), "GET", CIMultiDictProxy(CIMultiDict()))
FAILURE = OSError(111, "refused")
# The classes have constructors of a few shapes; the first that fits is used.
ARGUMENTS: tuple[tuple[object, ...], ...] = (
    (KEY, FAILURE),
    ("/socket", KEY, FAILURE),
    (REQUEST, ()),
    (b"expected", b"got", "localhost", 443),
    (URL("http://localhost"),),
    ("some words",),
    ("some words", "12"),
    (),
)


def made(cls: type[Exception]) -> Exception:
    """Return an exception of the class that can also be shown."""
    for arguments in ARGUMENTS:
        try:
            error = cls(*arguments)
            str(error)
        except (TypeError, AttributeError, ValueError):
            continue
        else:
            return error
    pytest.fail(f"add the arguments of {cls.__name__} to ARGUMENTS")


class FailingReceiver:
    """Receives a body and fails as the library does in the middle of an answer."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def begin(self, size_bytes: int | None) -> None:  # noqa: ARG002 - a receiver's signature
        raise self._failure

    async def take(self, piece: bytes) -> None:
        raise AssertionError(piece)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serving(answer({})) as workspace:
        yield workspace.url


def test_there_are_exceptions_to_map() -> None:
    """The walk over the library finds its tree, wherever a later version keeps it."""
    names = {cls.__name__ for cls in CLASSES}
    assert {"ClientError", "ServerDisconnectedError", "HttpProcessingError"} <= names
    assert len(names) > 30


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
async def test_a_workspace_client_raises_our_error(cls: type[Exception], url: str) -> None:
    """Whatever the library raises, the workspace is unreachable and the request is retried."""
    settings = WorkspaceSettings(name="north", url=url)
    transport = Transport(settings, clock=SystemClock())
    try:
        with pytest.raises(WorkspaceUnreachableError):
            await transport.send("GET", "/v4", query=[], receiver=FailingReceiver(made(cls)))
    finally:
        await transport.close()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
async def test_an_output_raises_our_error(cls: type[Exception], url: str) -> None:
    """Whatever the library raises, the event is sent again."""

    def fail() -> dict[str, str]:
        raise made(cls)

    receiver = HttpReceiver(url, settings=ReceiverSettings(), clock=SystemClock(), headers=fail)
    try:
        with pytest.raises(OutputUnavailableError):
            await receiver.post(b"{}", headers={})
    finally:
        await receiver.close()
