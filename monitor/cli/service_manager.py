"""Tells a service manager such as systemd how the daemon is, by its datagrams (``sd_notify``).

Started by anybody else the daemon tells nobody: there is no ``NOTIFY_SOCKET`` then.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping

import structlog

from monitor.model.clock import Clock

log = structlog.get_logger()

# The manager may be busy, and the event loop stands still while it is waited for. What feeds the
# watchdog is not worth that: it is soon said again.
_SEND_SECONDS = 0.5
_SEND_AT_ONCE = 0.0
_MAX_STATUS_CHARACTERS = 300


class ServiceManager:
    """Whoever started the daemon and listens at ``address``; without one all is said to nobody.

    A manager that does not listen any more is logged once and spoken to all the same: it may come
    back. Nothing here fails.
    """

    def __init__(
        self, address: str | None, *, clock: Clock, watchdog_seconds: float | None = None
    ) -> None:
        """``watchdog_seconds``: silence of that length gets the daemon killed; None: it may be."""
        self._address = address
        self._clock = clock
        self._watchdog_seconds = watchdog_seconds
        self._is_lost = False
        self._status = ""

    @classmethod
    def of(cls, environment: Mapping[str, str], *, process_id: int, clock: Clock) -> ServiceManager:
        """Return the manager that the environment of a process names."""
        address = environment.get("NOTIFY_SOCKET") or None
        # What was meant for the process that started this one is none of our business.
        is_ours = environment.get("WATCHDOG_PID", str(process_id)) == str(process_id)
        duration = environment.get("WATCHDOG_USEC", "")
        is_watched = address is not None and is_ours and duration.isdecimal() and int(duration) > 0
        return cls(
            address,
            clock=clock,
            watchdog_seconds=int(duration) / 1_000_000 if is_watched else None,
        )

    @property
    def watches(self) -> bool:
        """True when the manager kills a daemon that `feed` does not speak for."""
        return self._watchdog_seconds is not None

    def started(self, status: str) -> None:
        """Say that the daemon does its work; ``status`` is one line about what that is."""
        self._status = status
        self._tell("READY=1", _status(status))

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """Say that a reload has begun, and in the end that it is over, however it went."""
        since = int(self._clock.monotonic() * 1_000_000)
        self._tell("RELOADING=1", f"MONOTONIC_USEC={since}", _status("reading the configuration"))
        try:
            yield
        finally:
            self._tell("READY=1", _status(self._status))

    def change_status(self, status: str) -> None:
        """Use another line from now on; inside `reloading` it is told at its end."""
        self._status = status

    def stopping(self) -> None:
        """Say that the daemon ends, so that its silence is no fault."""
        self._tell("STOPPING=1", _status("letting events out"))

    async def feed(self, probe: Callable[[], Awaitable[None]]) -> None:
        """Keep the watchdog quiet until cancelled, for as long as ``probe`` returns soon.

        That this task gets its turns shows that the event loop runs; the probe shows the rest.
        """
        if self._watchdog_seconds is None:
            return
        is_silent = False
        while True:
            due = self._clock.monotonic() + self._watchdog_seconds / 2
            if await _returns(probe, within_seconds=self._watchdog_seconds / 4):
                # A line that told of the silence is over with it.
                told = [_status(self._status)] if is_silent else []
                self._tell("WATCHDOG=1", *told, wait_seconds=_SEND_AT_ONCE)
                is_silent = False
            elif not is_silent:
                is_silent = True
                log.error("the watchdog is not fed", reason="the store does not answer")
                self._tell(_status("the store does not answer"))
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))

    def _tell(self, *lines: str, wait_seconds: float = _SEND_SECONDS) -> None:
        if self._address is None:
            return
        # An abstract socket is written with an @, and has a zero byte there.
        abstract = self._address.startswith("@")
        address = "\0" + self._address[1:] if abstract else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(wait_seconds)
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as exc:
            if not self._is_lost:
                log.warning("the service manager does not listen", reason=str(exc))
            self._is_lost = True
        else:
            self._is_lost = False


def _status(text: str) -> str:
    # A line end would begin another assignment.
    return f"STATUS={' '.join(text.split())[:_MAX_STATUS_CHARACTERS]}"


async def _returns(probe: Callable[[], Awaitable[None]], *, within_seconds: float) -> bool:
    try:
        async with asyncio.timeout(within_seconds):
            await probe()
    except TimeoutError:
        return False
    return True
