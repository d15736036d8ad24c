"""A daemon as a process whose workspace and broker do not answer: only its store matters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tests.app.eventually import eventually
from tests.app.processes import DaemonProcess, Done, Watched, command, daemon_process
from tests.crash.scenario import CrashSettings
from tests.crash.sender import Sender
from tests.servers import free_port

SOON_SECONDS = 20.0  # for a process on a busy machine; itself it needs two


def settings_for(folder: Path, store: Path | None = None) -> CrashSettings:
    folder.mkdir(exist_ok=True)
    return CrashSettings(
        folder,
        Watched("acme", f"http://127.0.0.1:{free_port()}", "a token"),
        broker_url=f"mqtt://127.0.0.1:{free_port()}",
        store=store or folder / "state.db",
    )


@contextlib.asynccontextmanager
async def lone_daemon(settings: CrashSettings) -> AsyncIterator[tuple[DaemonProcess, Sender]]:
    """Start a daemon that takes callbacks; its inbox keeps them, as no poll confirms a run."""
    assert settings.callbacks_port is not None
    async with daemon_process(settings) as daemon:
        yield daemon, Sender(settings.callbacks_port)


async def ended(daemon: DaemonProcess) -> int:
    """Return the exit code of a daemon that ends by itself, soon."""
    try:
        async with asyncio.timeout(SOON_SECONDS):
            return await daemon.ended()
    except TimeoutError as exc:
        raise AssertionError(f"it goes on:\n{daemon.log[-3000:]}") from exc


async def start_of(settings: CrashSettings) -> Done:
    """Return what becomes of a start that must fail."""
    return await command("run", "-c", str(settings.path))


def reason_of(done: Done) -> str:
    """Return the one line in which a command that failed says why."""
    assert done.code == 1, done.err
    assert "Traceback" not in done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    return line


async def flood(
    sender: Sender, during: Callable[[], Awaitable[None]], *, acknowledged: int = 50
) -> int:
    """Send callbacks without end while something happens; return how many were acknowledged.

    The count is taken when ``during`` returns. Ends the sending.
    """
    sending = asyncio.create_task(
        sender.send(((str(number), "Complete") for number in range(1, 100_000)), within_seconds=120)
    )
    try:
        await eventually(lambda: len(sender.acknowledged) >= acknowledged, why="none acknowledged")
        await during()
        return len(sender.acknowledged)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
