"""Requests to track a run that the workspace could not answer yet. They survive a restart."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entries
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError, NoSuchObjectError
from monitor.model.runs import RunKey
from monitor.model.waits import backoff_seconds, happens_within
from monitor.polling.poller import WorkspacePoller
from monitor.polling.settings import followed_run
from monitor.tracking.observer import Observer

log = structlog.get_logger()

TOPIC = "tracked"  # of the state entries: "kind/id" -> when it was requested

_BOUND = 1_000
_GIVE_UP_SECONDS = 7 * 86_400.0
_COMMIT_SECONDS = 10.0
_RETRY_SECONDS, _RETRY_CAP_SECONDS = 2.0, 300.0
_IDLE_SECONDS = 3_600.0
_INSTANT: msgspec.json.Decoder[datetime] = msgspec.json.Decoder(Annotated[datetime, Meta(tz=True)])


class TrackedRuns:
    """The open requests of one workspace: repeated until the run is known, or denied."""

    def __init__(
        self,
        workspace: str,
        *,
        poller: WorkspacePoller,
        observer: Observer,
        bus: EventBus,
        clock: Clock,
    ) -> None:
        self._workspace = workspace
        self._poller = poller
        self._observer = observer
        self._bus = bus
        self._clock = clock
        self._requested: dict[RunKey, float] = {}  # since when in this life, monotonic
        self._is_loaded = False
        self._attempts = 1  # since one was added; a restart for the store's sake is none
        self._added = asyncio.Event()

    async def track(self, key: RunKey) -> bool | None:
        """Read a run by its id; where it cannot be read now, the request is durable on return.

        True: the run is followed. False: the workspace denies it, or it is none that is followed.
        None: the workspace was unreachable, and the request repeats until it answers.

        Raises:
            BusUnavailableError: the request could not be stored.
            ConfigurationError: there are too many requests.
        """
        answer = await self._poller.track(key.kind, key.id)
        if answer is None and key not in self._requested:
            await self._add(key)
        return answer

    async def untrack(self, key: RunKey) -> None:
        """Drop the request for a run that was not read yet, durably.

        Raises:
            BusUnavailableError: it could not be removed.
            ConfigurationError: the run was read and is followed to its end, or is configured.
            NoSuchObjectError: no such request waits.
        """
        await self._load()
        is_named = self._poller.untrack(key)
        if key in self._requested:
            await self._remove(key)
        elif key in await self._observer.known((key,)):
            raise ConfigurationError(f"{key} was read, and is followed to its end")
        elif not is_named:
            raise NoSuchObjectError(f"{key} is not asked for")

    async def run(self) -> None:
        """Repeat the stored requests until cancelled, with growing waits.

        Raises:
            BusUnavailableError: the store does not answer; the supervisor tries again.
        """
        while True:
            is_idle = self._is_loaded and not self._requested
            wait = _IDLE_SECONDS if is_idle else _wait_seconds(self._attempts)
            if await self._is_added_within(wait):
                self._attempts = 1
                continue
            self._attempts += 1
            await self._load()
            for key, since in list(self._requested.items()):
                if await self._is_over(key, since):
                    await self._remove(key)

    async def _is_added_within(self, seconds: float) -> bool:
        is_added = await happens_within(
            self._added.wait(),
            clock=self._clock,
            seconds=seconds,
            name=f"track requests {self._workspace}",
        )
        self._added.clear()
        return is_added

    async def _load(self) -> None:
        if self._is_loaded:
            return
        entries = await self._bus.state_entries(self._workspace, TOPIC)
        for text in decode_entries(entries, _INSTANT, topic=TOPIC):
            try:
                key = followed_run(self._workspace, text)
            except ConfigurationError as exc:
                log.warning("a track request is dropped", reason=str(exc))
                await self._store(text, None)
                continue
            self._requested.setdefault(key, self._clock.monotonic())
        self._is_loaded = True

    async def _is_over(self, key: RunKey, since: float) -> bool:
        if key in await self._observer.known((key,)):
            return True
        answer = False if self._poller.gave_up(key) else None
        if answer is None:
            answer = await self._poller.track(key.kind, key.id)
        if answer is False:
            log.warning("track request dropped: the workspace denies the run", run=str(key))
        if answer is None and self._clock.monotonic() - since > _GIVE_UP_SECONDS:
            log.warning("track request dropped: not answered for a week", run=str(key))
            return True
        return answer is not None

    async def _add(self, key: RunKey) -> None:
        if len(self._requested) >= _BOUND:
            raise ConfigurationError(
                f"{len(self._requested):,} runs of {self._workspace} are to be tracked already, "
                "and more are not kept: wait until the workspace answers"
            )
        await self._store(_name(key), msgspec.json.encode(self._clock.now()))
        self._requested[key] = self._clock.monotonic()
        self._added.set()

    async def _remove(self, key: RunKey) -> None:
        await self._store(_name(key), None)
        self._requested.pop(key, None)

    async def _store(self, name: str, value: bytes | None) -> None:
        entry = StateEntry(workspace=self._workspace, topic=TOPIC, key=name, value=value)
        await self._bus.commit(Change(state_entries=(entry,)), timeout_seconds=_COMMIT_SECONDS)


def _name(key: RunKey) -> str:
    return f"{key.kind}/{key.id}"


def _wait_seconds(attempt: int) -> float:
    return backoff_seconds(attempt, base_seconds=_RETRY_SECONDS, cap_seconds=_RETRY_CAP_SECONDS)
