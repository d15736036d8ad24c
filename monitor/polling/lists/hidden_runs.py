"""Runs that the token cannot see any more because all flows, or all plans, are refused.

Where everything that a list of flows had shown is refused, the runs leave their own lists too. None
of these shows that: it comes empty, as if nothing had been written. So those runs are taken for
hidden, until one is shown: a right to a flow may be withdrawn without that to its runs. Where some
are active, they are read by their ids, and only where these are refused too their kinds are hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import structlog

from monitor.model.errors import (
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    WorkspaceError,
)
from monitor.model.runs import RunKey, RunKind
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_READS = 3  # active runs of a kind; one of them must answer


class Recognition:
    """When the workspace was last asked for what showed anything that it had shown before.

    An answer may come late, and shows what was there when it was asked for. What is recorded here
    is recorded in ``whole`` too.
    """

    def __init__(self, *, whole: Recognition | None = None) -> None:
        self._whole = whole
        self._at: float | None = None  # monotonic

    def record(self, *, asked: float) -> None:
        self._at = asked if self._at is None else max(self._at, asked)
        if self._whole is not None:
            self._whole.record(asked=asked)

    def is_since(self, monotonic: float) -> bool:
        return self._at is not None and self._at >= monotonic


class HiddenRuns:
    """Those of one kind of pipeline. All times are monotonic."""

    def __init__(
        self, context: PollContext, name: str, shown: Mapping[RunKind, Recognition]
    ) -> None:
        """``name`` is that of the list of pipelines, ``shown`` says when their runs were shown."""
        self._context = context
        self._name = name
        self._shown = shown
        self._is_judged = False  # in this life
        self._judged = -math.inf
        self._since: float | None = None  # when they were found to be hidden
        self._until = -math.inf

    @property
    def kinds(self) -> tuple[RunKind, ...]:
        """Which are hidden now."""
        return tuple(self._shown) if self.were_hidden(asked=math.inf) else ()

    def were_hidden(self, *, asked: float) -> bool:
        """True where a list of runs that was asked for then may lack them."""
        if self._since is not None and self._are_shown(since=self._since):
            self._since = None  # it was wrong
        if not self._is_judged and self._were_hidden_before_start():
            return True
        return self._since is not None or asked < self._until

    async def judge(self, refused_since: float | None) -> None:
        """Find out whether they are hidden. ``refused_since``: all pipelines are; None: not all.

        Where a run cannot be read for other reasons, what was found before still holds.
        """
        now = self._context.clock.monotonic()
        if refused_since is None:
            self.end()
            return
        active = self._active()
        # What was shown of active runs says nothing of now; where none is, nothing more is shown.
        since = max(refused_since, self._judged) if active else refused_since
        try:
            is_shown = self._are_shown(since=since) or await self._is_any_shown(active)
        except WorkspaceError as error:
            name, reason = self._context.name, str(error)
            log.info("active run not readable now", workspace=name, reason=reason)
            return
        self._is_judged = True
        self._judged, self._since = now, None if is_shown else now

    def end(self) -> None:
        """The pipelines are shown again: so are their runs, in lists that are requested now."""
        if self.kinds:
            self._until = self._context.clock.monotonic()
        self._is_judged, self._since = True, None

    def _were_hidden_before_start(self) -> bool:
        doubted = self._context.live_state.workspaces[self._context.name].doubted
        return any(
            known.name == self._name and not self._shown.keys().isdisjoint(known.unwatched)
            for known in doubted
        )

    def _are_shown(self, *, since: float) -> bool:
        return any(recognition.is_since(since) for recognition in self._shown.values())

    def _active(self) -> list[RunKey]:
        """Return some active runs of each kind, those that were confirmed last."""
        return [key for kind in self._shown for key in self._context.active_keys(kind)[-_READS:]]

    async def _is_any_shown(self, active: list[RunKey]) -> bool:
        """Read them by their ids.

        Raises:
            WorkspaceError: one was neither shown nor refused.
        """
        for key in active:
            try:
                await self._read(key)
            except (NoSuchObjectError, RequestRejectedError):
                continue
            except NotAvailableError as error:
                if error.status_code is None:
                    raise  # nothing was sent, as such reads are not offered here
                continue
            return True
        return False

    async def _read(self, key: RunKey) -> None:
        runs, priority = self._context.client.runs, Priority.NAMES
        if key.kind is RunKind.JOB_GROUP:
            await runs.job_group(key.id, priority=priority)
        elif key.kind is RunKind.FLOW_RUN:
            await runs.flow_run_status(key.id, priority=priority)
        else:
            await runs.plan_run(key.id, priority=priority)
