"""Packages and PDFs on their way: whole or not there, in little memory, whatever their size."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from monitor.model.errors import (
    LocalFileError,
    NoSuchObjectError,
    UnreadableAnswerError,
    WorkspaceUnreachableError,
)
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.files import FileReceiver, Upload
from tests.clocks import ManualClock
from tests.workspace.scripted import Handler, answer, client_of, refusal, serving

PIECE = bytes(range(256)) * 1024
MIB = 1024 * 1024


def streaming(
    pieces: int, *, content_length: int | None = None, breaks_at: asyncio.Event | None = None
) -> Handler:
    """Return a handler that sends so many pieces and announces ``content_length`` bytes.

    With ``breaks_at`` it hangs up when that is set, in the middle of the answer.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/zip"})
        response.content_length = content_length
        await response.prepare(request)
        for _ in range(pieces):
            await response.write(PIECE)
        if breaks_at is not None:
            await breaks_at.wait()
            assert request.transport is not None
            request.transport.abort()
        return response

    return handle


async def package(
    client: WorkspaceClient,
    into: Path,
    progress: list[tuple[int, int | None]],
    arrived: asyncio.Event | None = None,
) -> None:
    """Download the package of flow 7; ``arrived`` is set when its first piece is there."""

    def show(done: int, whole: int | None) -> None:
        progress.append((done, whole))
        if done and arrived is not None:
            arrived.set()

    async with asyncio.timeout(20):
        await client.operations.download(
            "getFlowPackage", 7, into=into, on_progress=show, priority=Priority.CHANGES
        )


def names_in(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def is_device(path: Path) -> bool:
    return path.is_char_device()


async def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """A download of 20 MiB, above the limit of an answer, keeps less than 5 MiB in memory."""
    pieces = 20 * MIB // len(PIECE)
    into, progress = tmp_path / "flow.zip", list[tuple[int, int | None]]()
    async with (
        serving(streaming(pieces, content_length=20 * MIB)) as workspace,
        client_of(workspace.url, body_limit_bytes=MIB) as client,
    ):
        tracemalloc.start()
        try:
            await package(client, into, progress)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert into.stat().st_size == 20 * MIB
    assert peak_bytes < 5 * MIB
    assert progress[0] == (0, 20 * MIB)
    assert progress[-1] == (20 * MIB, 20 * MIB)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


async def test_a_download_that_broke_off_begins_again(tmp_path: Path) -> None:
    """The file holds one whole answer, not the pieces of two, and its length is that one's."""
    into, progress = tmp_path / "flow.zip", list[tuple[int, int | None]]()
    arrived = asyncio.Event()
    broken = streaming(3, content_length=99 * len(PIECE), breaks_at=arrived)
    async with serving(broken, streaming(2)) as workspace, client_of(workspace.url) as client:
        await package(client, into, progress, arrived)
    assert into.read_bytes() == PIECE * 2
    assert [number for number, (done, _) in enumerate(progress) if done == 0][1] >= 2
    assert progress[-1] == (2 * len(PIECE), None)


@pytest.mark.parametrize(
    ("is_begun", "error"), [(False, NoSuchObjectError), (True, WorkspaceUnreachableError)]
)
async def test_a_failure_leaves_what_was_there(
    tmp_path: Path, *, is_begun: bool, error: type[Exception]
) -> None:
    """The former file stays as it was, and no part of a new one lies beside it."""
    into, arrived = tmp_path / "flow.zip", asyncio.Event()
    into.write_bytes(b"former")
    broken = streaming(1, content_length=99 * len(PIECE), breaks_at=arrived)
    handler = broken if is_begun else refusal(404, "DataNotFoundException")
    async with serving(handler) as workspace, client_of(workspace.url, retries=1) as client:
        with pytest.raises(error):
            await package(client, into, [], arrived)
    assert into.read_bytes() == b"former"
    assert names_in(tmp_path) == ["flow.zip"]


async def test_a_cancelled_download_leaves_nothing(tmp_path: Path) -> None:
    """An interruption leaves no part of the file."""
    begun = asyncio.Event()

    async def stuck(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(PIECE)
        await asyncio.Event().wait()
        return response

    async with serving(stuck) as workspace, client_of(workspace.url) as client:
        task = asyncio.create_task(
            client.operations.download(
                "getFlowPackage",
                7,
                into=tmp_path / "flow.zip",
                on_progress=lambda done, _: begun.set() if done else None,
                priority=Priority.CHANGES,
            )
        )
        async with asyncio.timeout(10):
            await begun.wait()
        assert len(names_in(tmp_path)) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert names_in(tmp_path) == []


async def test_a_packed_body_shows_no_length(tmp_path: Path) -> None:
    """The length of a compressed answer is not reported as the file's."""

    async def packed(_: web.Request) -> web.Response:
        response = web.Response(body=PIECE)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    into, progress = tmp_path / "flow.zip", list[tuple[int, int | None]]()
    async with serving(packed) as workspace, client_of(workspace.url) as client:
        await package(client, into, progress)
    assert into.read_bytes() == PIECE
    assert {whole for _, whole in progress} == {None}


@pytest.mark.parametrize("status", [204, 304])
async def test_no_body_makes_no_file(tmp_path: Path, status: int) -> None:
    """Where the answer has nothing to keep, no empty file is left."""
    async with serving(answer(None, status)) as workspace, client_of(workspace.url) as client:
        await package(client, tmp_path / "flow.zip", [])
    assert names_in(tmp_path) == []


async def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    """A link is followed to its file, and what is no file is written to in its place."""
    real, link = tmp_path / "real.zip", tmp_path / "link.zip"
    link.symlink_to(real)
    async with serving(streaming(1)) as workspace, client_of(workspace.url) as client:
        await package(client, link, [])
        await package(client, Path(os.devnull), [])
    assert link.is_symlink()
    assert real.read_bytes() == PIECE
    assert is_device(Path(os.devnull))


async def test_a_file_that_a_device_took_is_not_sent_twice() -> None:
    """A second try would follow the pieces of the first one, so it is not begun."""
    arrived = asyncio.Event()
    broken = streaming(1, content_length=9 * len(PIECE), breaks_at=arrived)
    async with serving(broken, streaming(1)) as workspace, client_of(workspace.url) as client:
        with pytest.raises(LocalFileError, match="cannot be taken back"):
            await package(client, Path(os.devnull), [], arrived)


@pytest.mark.parametrize(
    "place", [lambda folder: folder / "nowhere" / "flow.zip", lambda folder: folder]
)
async def test_a_path_that_cannot_be_written_is_named(
    tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    """The error is about this machine's file, not about the workspace."""
    into = place(tmp_path)
    async with serving(streaming(1)) as workspace, client_of(workspace.url) as client:
        with pytest.raises(LocalFileError) as caught:
            await package(client, into, [])
    assert str(caught.value).startswith(f"{into} cannot be written: ")
    assert names_in(tmp_path) == []


async def test_an_empty_body_is_an_empty_file(tmp_path: Path) -> None:
    """A receiver that was begun and took nothing leaves a file of no bytes."""
    async with FileReceiver(tmp_path / "empty") as receiver:
        await receiver.begin(0)
        assert receiver.is_begun
    assert (tmp_path / "empty").read_bytes() == b""


async def test_a_large_answer_that_is_no_file_is_still_refused() -> None:
    """An answer that is read into memory keeps its limit."""
    async with (
        serving(streaming(4)) as workspace,
        client_of(workspace.url, body_limit_bytes=len(PIECE)) as client,
    ):
        with pytest.raises(UnreadableAnswerError):
            await client.requester.request("getFlowPackage", 7, priority=Priority.CHANGES)
    assert len(workspace.requests) == 1


async def test_an_upload_is_sent_whole_by_each_try(tmp_path: Path) -> None:
    """The form's field ``data`` holds the file with its name and type, a retry's too."""
    path = tmp_path / "sales.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("flow.json", "{}" * 10_000)
    async with (
        serving(refusal(429, "", {"x-retry-after": "1"}), answer({}, 201)) as workspace,
        client_of(workspace.url) as client,
    ):
        done = await client.requester.request(
            "importPackage", body=Upload(path=path), priority=Priority.CHANGES
        )
    assert done.status_code == 201
    assert len(workspace.bodies) == 2
    for request, body in zip(workspace.requests, workspace.bodies, strict=True):
        assert request.content_type == "multipart/form-data"
        head, _, rest = body.partition(b"\r\n\r\n")
        assert b'name="data"; filename="sales.zip"' in head
        assert b"application/zip" in head
        assert rest.startswith(path.read_bytes())


async def test_an_upload_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is reported before anything is sent."""
    async with serving(answer({})) as workspace, client_of(workspace.url) as client:
        with pytest.raises(LocalFileError, match=r"none\.zip cannot be read: No such file"):
            await client.requester.request(
                "importPackage", body=Upload(path=tmp_path / "none.zip"), priority=Priority.CHANGES
            )
    assert workspace.requests == []


async def test_a_real_result_arrives_as_a_file(tmp_path: Path) -> None:
    """A job group's PDF of a sandbox becomes a file that begins as one."""
    clock = ManualClock()
    sandbox = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    url = await sandbox.start()
    try:
        flow = next(iter(sandbox.world.flows.live()))
        sandbox.engine.start_flow_run(flow, by=flow.creator_id)
        await clock.advance(2_000)
        group = next(iter(sandbox.world.job_groups.live()))
        async with client_of(url, token=Secret(sandbox.token)) as client:
            done = await client.operations.download(
                "getJobGroupPdfResults",
                group.id,
                into=tmp_path / "result.pdf",
                priority=Priority.CHANGES,
            )
    finally:
        await sandbox.stop()
    assert done.headers["Content-Type"] == "application/pdf"
    assert (tmp_path / "result.pdf").read_bytes().startswith(b"%PDF-")
