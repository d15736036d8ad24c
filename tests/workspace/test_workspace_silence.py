"""When a client reports that nothing is answered any more, before its retries are over."""

from __future__ import annotations

import asyncio

from aiohttp import web

from monitor.model.errors import WorkspaceError, WorkspaceUnreachableError
from monitor.workspace.client import Priority, WorkspaceClient
from tests.workspace.scripted import Handler, SkippingClock, answer, client_of, refusal, serving

_READ_SECONDS = 0.4  # by the machine's clock
GOOD = answer({"id": 1})


def unanswered(clock: SkippingClock, seconds: float, *, has_begun: bool = False) -> Handler:
    """Return a handler that lets so much time pass and never answers.

    ``has_begun``: it never ends its answer.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if has_begun:
            await response.prepare(request)
            await response.write(b"{")
        clock.pass_by(seconds)
        await asyncio.Event().wait()
        return response

    return handle


class Reports:
    """What a client reported, each with the seconds since the beginning."""

    def __init__(self, client: WorkspaceClient, clock: SkippingClock) -> None:
        self.heard: list[tuple[str, float]] = []
        began = clock.monotonic()

        def listen(error: WorkspaceUnreachableError | None) -> None:
            word = "answers" if error is None else "silent"
            self.heard.append((word, round(clock.monotonic() - began)))

        client.requester.transport.on_silence(listen)


async def heard(
    *handlers: Handler, clock: SkippingClock, reads: int = 1
) -> list[tuple[str, float]]:
    """Return what is reported while so many reads are made, good or not."""
    async with (
        serving(*handlers) as workspace,
        client_of(
            workspace.url, clock=clock, retries=1, read_timeout_seconds=_READ_SECONDS
        ) as client,
    ):
        reports = Reports(client, clock)
        for _ in range(reads):
            try:
                await client.runs.job_group("1", priority=Priority.CHANGES)
            except WorkspaceError:
                continue
        return reports.heard


async def test_silence_is_reported_after_the_first_try() -> None:
    """Not after the last: the retries of a request may take minutes."""
    clock = SkippingClock()

    assert await heard(unanswered(clock, 30), GOOD, clock=clock) == [
        ("silent", 30),
        ("answers", 30),
    ]


async def test_a_request_that_fails_soon_is_no_silence() -> None:
    """As in a restart of the workspace: only the retries can show whether it is over."""
    clock = SkippingClock()

    assert await heard(unanswered(clock, 5), clock=clock) == []


async def test_an_answer_that_breaks_off_is_no_silence() -> None:
    """However long its rest was waited for: the workspace has answered."""
    clock = SkippingClock()

    assert await heard(unanswered(clock, 60, has_begun=True), GOOD, clock=clock) == []


async def test_an_error_of_the_server_ends_no_silence() -> None:
    """A gateway answers for a workspace that does not; a refusal is an answer of its own."""
    clock = SkippingClock()
    failing = refusal(503, "ServiceUnavailable")
    history = (unanswered(clock, 30), failing, failing, refusal(404, "DataNotFoundException"))
    words = [word for word, _ in await heard(*history, clock=clock, reads=2)]

    assert words == ["silent", "answers"]


async def test_a_request_in_vain_beside_an_answered_one_is_no_silence() -> None:
    """One list that hangs shows nothing about the others."""
    clock = SkippingClock()
    async with (
        serving(unanswered(clock, 15), GOOD) as workspace,
        client_of(
            workspace.url, clock=clock, retries=0, read_timeout_seconds=_READ_SECONDS
        ) as client,
    ):
        reports = Reports(client, clock)
        hanging = asyncio.create_task(client.runs.job_group("1", priority=Priority.CHANGES))
        async with asyncio.timeout(10):
            await workspace.until_requested()
        await client.runs.job_group("2", priority=Priority.CHANGES)
        await asyncio.wait({hanging})

    assert isinstance(hanging.exception(), WorkspaceUnreachableError)
    assert reports.heard == []
