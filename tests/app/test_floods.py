"""A flood on one listener leaves the other, polls and outputs untouched."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from monitor.callbacks.settings import ListenerSettings
from monitor.listening.file_descriptors import raise_descriptor_limit
from monitor.listening.settings import ConnectionLimits
from monitor.sandbox.running.engine import Order, Outcome
from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.processes import Settings, Watched, daemon_process
from tests.servers import free_port

LIMITS = ConnectionLimits(total=60, per_source=30, head_seconds=3_600)
_SOURCES = [f"127.0.1.{number}" for number in range(1, 5)]
_SECONDS = 5.0  # for an answer; on an idle machine it takes some milliseconds


@contextlib.asynccontextmanager
async def flooded(port: int, *sources: str, each: int) -> AsyncIterator[None]:
    """Hold so many idle connections of each source to a listener, as far as it lets."""
    opened = await asyncio.gather(
        *(
            asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            for source in sources
            for _ in range(each)
        )
    )
    try:
        yield
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def seconds_of(face: Face, path: str) -> float:
    began = time.monotonic()
    async with asyncio.timeout(_SECONDS):
        await face.json(path)
    return time.monotonic() - began


@pytest.mark.parametrize("flooded_listener", ["server", "callbacks"])
async def test_a_flood_stops_one_listener_at_most(tmp_path: Path, flooded_listener: str) -> None:
    """With every place of one listener taken, runs are still read, published and called back."""
    workspace, server_port, callbacks_port = fixture.sandbox(), free_port(), free_port()
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = fixture.configuration(
            tmp_path,
            fixture.workspace_configuration(workspace, url, callbacks_port=callbacks_port),
            broker_url=broker.url,
        )
        settings = msgspec.structs.replace(
            settings,
            server=ServerSettings(listen=f"127.0.0.1:{server_port}", connections=LIMITS),
            callbacks=ListenerSettings(listen=f"127.0.0.1:{callbacks_port}", connections=LIMITS),
        )
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            is_server = flooded_listener == "server"
            flooded_port = server_port if is_server else callbacks_port
            async with flooded(flooded_port, *_SOURCES, each=75):
                recipe = next(
                    recipe
                    for recipe in workspace.world.recipes.live()
                    if workspace.world.outputs_of(recipe.id)
                )
                workspace.engine.order(Order(outcome=Outcome.FAILED, work_seconds=1))
                run = workspace.engine.start_job_group(recipe, by=recipe.creator_id)
                await eventually(
                    lambda: any(end[1] == str(run.id) for end in subscriber.received().ends()),
                    why="the end of a run is not published",
                )
                if is_server:
                    assert await called_back(callbacks_port) == 404  # answered, without a secret
                else:
                    assert await seconds_of(face, "/healthz") < _SECONDS
                    assert (await face.readiness()).status == 200
            await eventually(face.answers, why="the server does not recover")
            assert await called_back(callbacks_port) == 404


async def test_a_thousand_idle_connections_at_a_limit_of_1024_handles(tmp_path: Path) -> None:
    """One source cannot stop a listener, and many can stop no more than that one."""
    raise_descriptor_limit()  # of the test, which holds the other ends
    watched = Watched(name="acme", url="http://127.0.0.1:9", token="a token")
    settings = Settings(tmp_path, watched, with_callbacks=True)
    assert settings.callbacks_port is not None
    async with daemon_process(settings, ulimit="-n 1024") as daemon:
        for port in (settings.port, settings.callbacks_port):
            async with flooded(port, "127.0.1.1", each=1_100):
                assert await seconds_of(daemon.face, "/healthz") < _SECONDS
                assert await called_back(settings.callbacks_port) == 404
        async with flooded(settings.callbacks_port, *_SOURCES, each=275):
            assert await seconds_of(daemon.face, "/healthz") < _SECONDS
        assert await called_back(settings.callbacks_port) == 404
        assert daemon.log.count("listener paused accepting") == 1
        assert "Traceback" not in daemon.log
        assert await daemon.end() == 0


async def test_the_daemon_raises_its_soft_limit_of_handles(tmp_path: Path) -> None:
    """The daemon uses what the system allows; the usual soft limit of 1,024 is for old programs."""
    watched = Watched(name="acme", url="http://127.0.0.1:9", token="a token")
    async with daemon_process(Settings(tmp_path, watched), ulimit="-S -n 300") as daemon:
        soft, hard = resource.prlimit(daemon.process_id, resource.RLIMIT_NOFILE)

    assert soft == min(hard, 65_536)


async def called_back(port: int) -> int:
    async with (
        asyncio.timeout(_SECONDS),
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/hooks/acme", data=b"{}") as answer,
    ):
        return answer.status
