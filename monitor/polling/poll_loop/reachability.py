"""The reachability of a workspace, derived from the outcomes of its polls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeGuard

import structlog

from monitor.model.errors import (
    BudgetExhaustedError,
    BusError,
    LeaseUncertainError,
    MonitorError,
    ThrottledError,
    UnauthorizedError,
    UnreadableAnswerError,
    WorkspaceError,
    WorkspaceUnreachableError,
)
from monitor.model.live_state import ClockSetBack, Reachability
from monitor.model.runs import RunKind
from monitor.model.waits import WakeSignal
from monitor.polling.poll_loop.context import PollContext
from monitor.tracking.live_state import RECOVERY
from monitor.workspace.answer_headers import LONG_PAUSE_SECONDS

log = structlog.get_logger()

# A ``Date`` is known to the second, and the first poll begins within that of following.
_CLOCK_SLACK = timedelta(seconds=5)
# Clocks are corrected by less than this all the time.
_CLOCK_STEP = timedelta(seconds=60)
_DAY = timedelta(days=1)
# A 5xx or a page of one operation shows little about the others: so many must fail in a row.
_OPERATIONS_FOR_OUTAGE = 2
# Stands among the polls for requests that got no answer and are tried again.
_SILENCE = "no answer"


class ReachabilityJudge:
    """Writes a workspace's reachability, and the reason for it, into what is known."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._polls: set[str] = set()
        self._failing: dict[str, MonitorError] = {}
        # Since anything was last answered: the polls that got no answer of the API.
        self._down: dict[str, WorkspaceError] = {}
        # Of these polls another operation was answered since they failed: if they fail again before
        # they succeed, it is their own failure.
        self._released: set[str] = set()
        self.cut_off = WakeSignal(context.clock)  # for `Recovery`
        self._limitation: str | None = None
        self._latest: datetime | None = None  # that the workspace's clock has shown
        context.client.requester.transport.on_silence(self.silence)

    def limited(self, reason: str | None) -> None:
        """The capabilities were published; ``reason`` is why some of them are not there.

        It is shown when nothing else is wrong: what was never offered is no failure.
        """
        self._limitation = reason
        status = self._context.live_state.workspaces[self._context.name]
        if status.reachability in (Reachability.REACHABLE, Reachability.DEGRADED):
            self._write()

    def succeeded(self, poll: str) -> None:
        """One poll came to its end, so the workspace answers."""
        self._count(poll)
        self._failing.pop(poll, None)
        self._released.discard(poll)
        self._watch_clock()
        released = set(self._down) if poll == RECOVERY else set()
        self._answers()
        self._released.update(released)

    def recovered(self, poll: str) -> None:
        """One poll has nothing to request any more; its own failure is over all the same."""
        if self._failing.pop(poll, None) is not None:
            self._write()

    def dropped(self, poll: str) -> None:
        """One poll reads what is no longer served; it shows nothing from now on."""
        self._polls.discard(poll)
        self._released.discard(poll)
        self._down.pop(poll, None)
        if self._failing.pop(poll, None) is not None:
            self._write()

    def failed(self, poll: str, error: MonitorError) -> None:
        """One poll failed. A failure of our own store shows nothing about the workspace."""
        self._count(poll)
        if isinstance(error, BusError | LeaseUncertainError):
            return
        self._failing[poll] = error
        self._failing.pop(_SILENCE, None)  # the poll says it better
        if _may_be_outage(error):
            if poll == RECOVERY and not self._fails_already(error.operation_id):
                self._released.clear()  # the others fail now, too
            self._down.pop(_SILENCE, None)
            self._down[poll] = error
        elif not isinstance(error, BudgetExhaustedError):
            self._down.clear()  # a refusal is an answer
        self._write()

    def _fails_already(self, operation_id: str | None) -> bool:
        """True where a poll shows it: then a failed try of it says nothing about all others."""
        failing = self._down.items()
        return any(
            poll != RECOVERY and operation_id == error.operation_id for poll, error in failing
        )

    def _count(self, poll: str) -> None:
        if poll != RECOVERY:  # which does not show that another operation fails too
            self._polls.add(poll)

    def silence(self, error: WorkspaceUnreachableError | None) -> None:
        """A request waited in vain, and is tried again; or, with None, something is answered."""
        if error is None:
            self._answers()
        elif not self._is_unreachable():
            self._failing[_SILENCE] = self._down[_SILENCE] = error
            self._write()

    def confirm(self) -> None:
        """Nothing has changed, as far as is known without a request."""
        self._write()

    @property
    def outage(self) -> WorkspaceError | None:
        """Why the workspace is cut off as a whole; None while it is not."""
        found = self._outage()
        return None if found is None else found[1]

    def _answers(self) -> None:
        if self._is_unreachable():
            # They failed because nothing answered; their next attempt shows what is true now.
            for other in self._down:
                self._failing.pop(other, None)
        for tried in (_SILENCE, RECOVERY):
            self._failing.pop(tried, None)
        self._down.clear()
        self._write()

    def _outage(self) -> tuple[str, WorkspaceError] | None:
        """Return the failure that stands for the outage, with its poll.

        The latest 429, as it has the present end of the pause; else the first: the reason stays.
        """
        if not self._concerns_all(list(self._down.values())):
            return None
        failures = list(self._down.items())
        pauses = [failure for failure in failures if isinstance(failure[1], ThrottledError)]
        return pauses[-1] if pauses else failures[0]

    def _concerns_all(self, failures: Sequence[WorkspaceError]) -> bool:
        """True where they show that no other operation would be answered either."""
        enough = min(_OPERATIONS_FOR_OUTAGE, len(self._polls))
        operation_ids = {error.operation_id for error in failures}
        return any(map(_is_of_all, failures)) or 0 < enough <= len(operation_ids)

    def _is_unreachable(self) -> bool:
        # Refusing the token and speaking nonsense are answers.
        kinds = (UnauthorizedError, UnreadableAnswerError)
        failures = [
            error
            for poll, error in self._down.items()
            if not isinstance(error, kinds) and (poll not in self._released or _is_of_all(error))
        ]
        return self._concerns_all(failures)

    def _reachability(self) -> Reachability:
        if self._is_unreachable():
            return Reachability.UNREACHABLE
        is_complete = not self._failing and not self._unwatched()
        return Reachability.REACHABLE if is_complete else Reachability.DEGRADED

    def _unwatched(self) -> list[str]:
        """Return why a part of the workspace, which answers, cannot be watched."""
        status = self._context.live_state.workspaces[self._context.name]
        return [cause.reason for cause in status.unwatched_causes()]

    def _watch_clock(self) -> None:
        """Notice that the workspace's clock was set back, until it has passed its former time.

        After a day the former time, unless it is the start of following, counts as none.
        Ends of now then sort before those of before. Before the start of following a run that is
        first seen at its end is even taken for an old one, and emits no event.
        """
        context, now = self._context, self._context.clock.now()
        status, at = context.live_state.workspaces[context.name], context.client.workspace_now()
        if at is None:
            return
        context.live_state.limit_complete(context.name, at)
        if status.followed_since is None:
            return
        is_past = status.clock_set_back is not None and now - status.clock_set_back.since >= _DAY
        self._latest = at if is_past else max(at, self._latest or at)
        is_old = status.followed_since - at > _CLOCK_SLACK
        if not is_old and self._latest - at <= _CLOCK_STEP:
            if status.clock_set_back is not None:
                log.info("workspace clock has passed its former time", workspace=context.name)
                context.live_state.update_workspace(context.name, clock_set_back=None)
            return
        if status.clock_set_back is not None:
            return
        former = max(status.followed_since, self._latest)
        log.warning(
            "workspace clock was set back",
            workspace=context.name,
            followed_since=status.followed_since,
            behind_seconds=round((former - at).total_seconds()),
        )
        effect = "are taken for old ones" if is_old else "are ordered before those of before"
        reason = (
            f"the workspace's clock shows {at:%Y-%m-%dT%H:%M:%SZ} after it had shown "
            f"{former:%Y-%m-%dT%H:%M:%SZ}: runs that end now {effect}"
        )
        unwatched = tuple(RunKind) if is_old else ("order of ends",)
        set_back = ClockSetBack(since=now, reason=reason, unwatched=unwatched)
        context.live_state.update_workspace(context.name, clock_set_back=set_back)

    def _write(self) -> None:
        reachability, outage = self._reachability(), self._outage()
        context, now = self._context, self._context.clock.now()
        answering = context.client.requester.answering
        if outage is None:
            answering.set()
        else:
            answering.clear()
            self.cut_off.set()
        status = context.live_state.workspaces[context.name]
        since = status.since if status.reachability is reachability else now
        context.live_state.update_workspace(
            context.name,
            reachability=reachability,
            since=since,
            known_at=now,
            is_remembered=False,
            reason=self._reason(),
            paused_until=self._paused_until(outage, now),
            clock_skew_seconds=context.client.requester.time.skew_seconds(),
            budgets=context.client.requester.budget.status(),
        )

    def _paused_until(
        self, outage: tuple[str, WorkspaceError] | None, now: datetime
    ) -> datetime | None:
        pause = self._context.client.requester.budget.long_pause("") if outage is not None else None
        return None if pause is None else now + timedelta(seconds=pause.retry_after_seconds)

    def _reason(self) -> str | None:
        outage, failures = self._outage(), sorted(self._failing.items())
        if outage is not None and outage[0] not in self._released:
            failures = [outage]
        failing = [f"{poll}: {error}" for poll, error in failures]
        return "; ".join([*self._unwatched(), *failing]) or self._limitation


def _may_be_outage(error: MonitorError) -> TypeGuard[WorkspaceError]:
    if isinstance(error, ThrottledError):
        return error.retry_after_seconds > LONG_PAUSE_SECONDS
    kinds = (WorkspaceUnreachableError, UnauthorizedError, UnreadableAnswerError)
    return isinstance(error, kinds)


def _is_of_all(error: WorkspaceError) -> bool:
    """True where the failure of one operation shows it of all: silence, the token, a pause."""
    is_silent = isinstance(error, WorkspaceUnreachableError) and error.status_code is None
    return is_silent or isinstance(error, UnauthorizedError | ThrottledError)
