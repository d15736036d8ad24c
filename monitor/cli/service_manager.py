"""Reports the state of the daemon to a service manager such as systemd (``sd_notify``).

Without ``NOTIFY_SOCKET`` in the environment there is no service manager, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping

import structlog

from monitor.model.clock import Clock

log = structlog.get_logger()

# The manager may be busy, and sending blocks the event loop. A watchdog message is not worth that:
# the next one follows soon.
_SEND_SECONDS = 0.5
_SEND_AT_ONCE = 0.0
_MAX_STATUS_CHARACTERS = 300


class ServiceManager:
    """The service manager that listens at ``address``; without one nothing is sent.

    A manager that stops listening is logged once, and sending goes on: it may come back. No method
    raises.
    """

    def __init__(
        self, address: str | None, *, clock: Clock, watchdog_seconds: float | None = None
    ) -> None:
        """``watchdog_seconds``: the manager kills a daemon that is silent so long; None: never."""
        self._address = address
        self._clock = clock
        self._watchdog_seconds = watchdog_seconds
        self._is_lost = False
        self._status = ""

    @classmethod
    def of(cls, environment: Mapping[str, str], *, process_id: int, clock: Clock) -> ServiceManager:
        """Return the manager that the environment of a process names."""
        address = environment.get("NOTIFY_SOCKET") or None
        # A watchdog of the parent process is not ours.
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
        """True when the manager kills a daemon without `feed`."""
        return self._watchdog_seconds is not None

    def started(self, status: str) -> None:
        """Report that the daemon is ready; ``status`` is one line about what it does."""
        self._status = status
        self._send("READY=1", _status(status))

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """Report that a reload has begun, and in the end that it is over, however it went."""
        since = int(self._clock.monotonic() * 1_000_000)
        self._send("RELOADING=1", f"MONOTONIC_USEC={since}", _status("reading the configuration"))
        try:
            yield
        finally:
            self._send("READY=1", _status(self._status))

    def change_status(self, status: str) -> None:
        """Use another line from now on; inside `reloading` it is sent at its end."""
        self._status = status

    def stopping(self) -> None:
        """Report that the daemon ends, so that its silence is no failure."""
        self._send("STOPPING=1", _status("delivering events"))

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
                # Replaces the line that reported the silence.
                status = [_status(self._status)] if is_silent else []
                self._send("WATCHDOG=1", *status, wait_seconds=_SEND_AT_ONCE)
                is_silent = False
            elif not is_silent:
                is_silent = True
                log.error("watchdog is not fed", reason="the store does not answer")
                self._send(_status("the store does not answer"))
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))

    def _send(self, *lines: str, wait_seconds: float = _SEND_SECONDS) -> None:
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
                log.warning("service manager does not listen", reason=str(exc))
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
