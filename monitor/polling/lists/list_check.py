"""Doubts a list of the workspace that lacks what must be in it, until it is whole again.

Lists lie in outages: they come empty or cut short, with 200. So what a list lacks is read by id,
a few ids at a time. What the workspace still shows by its id proves the list wrong, what it denies
was deleted, and what it refuses is not known. While a list is doubted nothing follows from what it
lacks; what it does show is handled as ever.

The doubt ends when the list shows again what it lacked, or when that is gone. Then everything that
happened meanwhile comes, because no watermark has moved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from functools import partial

import structlog

from monitor.model.errors import (
    DoubtedListError,
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
)
from monitor.model.live_state import SCHEDULES, DoubtedList
from monitor.model.runs import RunKind
from monitor.polling.lists.hidden_runs import HiddenRuns, Recognition
from monitor.polling.lists.unshared_pipelines import HIDDEN_SECONDS, UnsharedPipelines
from monitor.polling.poll_loop.context import PollContext

log = structlog.get_logger()

# Reads what has that id; False where it need not be in the list any more.
MustBeListed = Callable[[str], Awaitable[bool]]
# Returns those that are missing for a reason which says nothing of all else.
Explain = Callable[[Collection[str]], Awaitable[frozenset[str]]]
# Takes the id of what the list lacks with good reason, and whether it is gone or only hidden from
# us. False where it is kept for now.
Remove = Callable[[str, bool], Awaitable[bool]]

_READS = 3
# While nothing that was read is shown, much was deleted or is hidden: each comparison then reads
# twice as much as the one before, at most so much. 500 deleted flows take 23 lists and two hours.
_MOST_READS = 24
# A change poll comes every few seconds: a list in doubt is not questioned again by each of them.
_ASK_AGAIN_SECONDS = 60.0
_NAMED = 3  # ids in a reason
ALL_AT_ONCE = 3  # so many that vanish together, beside nothing that is known, are no deletion


class _Answer(Enum):
    LISTED = auto()  # it is there and belongs into the list
    GONE = auto()
    HIDDEN = auto()
    CHANGED = auto()  # it is there, and need not be in the list


_ABSENT = (_Answer.GONE, _Answer.HIDDEN)


class ListCheck:
    """One list of one workspace, whichever polls read it, and what it lacks wrongly."""

    def __init__(
        self,
        context: PollContext,
        name: str,
        recognition: Recognition,
        *,
        unwatched: Sequence[str],
        runs: Mapping[RunKind, Recognition] | None = None,
        explain: Explain | None = None,
    ) -> None:
        """``unwatched`` is what cannot be observed while the list is doubted: see `DoubtedList`.

        ``runs`` are of what it lists: see `HiddenRuns`.
        ``explain`` None: whatever is missing may be for a reason that hides more.
        """
        self._context = context
        self._name = name
        self.unwatched = tuple(unwatched)
        self._recognition = recognition
        self._hidden_runs = HiddenRuns(context, name, runs or {})
        self._explain = explain
        # What the list must show before it is believed again, and when that was last found so.
        self._lacking: dict[str, float] = {}
        self._reason = f"the list of {name}, doubted before the start, is not read since"
        self._since: datetime | None = None
        self._reads = _READS
        self._asked: dict[str, float] = {}  # when each missing id was last read; all monotonic
        self._hidden: dict[str, float] = {}  # since when
        self._vanished_at: float | None = None  # all of it, at once

    @property
    def is_doubted(self) -> bool:
        self._expire()
        return bool(self._lacking)

    def showed(self, known: Collection[str], *, asked: float) -> None:
        """The list that was asked for then (monotonic) shows what had been known before."""
        if known:
            self._recognition.record(asked=asked)
            self._vanished_at = None
        self.clear(known)

    def clear(self, ids: Iterable[str]) -> None:
        """These need not be missed any more: the list shows them, or they are gone."""
        was_doubted = bool(self._lacking)
        if not (was_doubted or self._hidden or self._asked):
            return
        for id_ in ids:
            self._lacking.pop(id_, None)
            self._hidden.pop(id_, None)
            self._asked.pop(id_, None)
        if was_doubted:
            self._publish()

    def excuse(self, ids: Iterable[str]) -> None:
        """These are missing for a reason that says nothing of all else; they are kept in mind."""
        excused = self._lacking.keys() & set(ids)
        for id_ in excused:
            del self._lacking[id_]
        if excused:
            self._publish()

    def found_whole(self) -> None:
        """The list shows all that it must, so a doubt that an earlier life has left is over."""
        if not self._lacking:
            self._publish()

    def forget(self) -> None:
        """Drop every doubt, also of an earlier life: the list is not read any more."""
        self.clear(tuple(self._lacking))
        self.found_whole()

    @property
    def hidden(self) -> tuple[str, ...]:
        """What is missing and was refused when it was last read."""
        return tuple(self._hidden)

    async def explained(self, missing: Collection[str]) -> frozenset[str]:
        """Return those that are missing for a reason of their own: they are doubted no more.

        Raises:
            WorkspaceError: what may be the reason could not be read; nothing was concluded.
        """
        if not missing or self._explain is None:
            return frozenset()
        explained = await self._explain(missing)
        self.clear(explained)
        return explained

    def doubt(self, lacking: Collection[str], reason: str) -> None:
        """Believe the list no more until it shows these."""
        if not lacking:
            return
        self._lacking |= dict.fromkeys(lacking, self._context.clock.monotonic())
        if self._since is None:
            self._since = self._context.clock.now()
        self._reason = f"the list of {self._name} lacks {_named(lacking)}: {reason}"
        self._publish()

    def require(self) -> None:
        """Let nothing follow from the list while it is doubted.

        Raises:
            DoubtedListError: it is.
        """
        if self.is_doubted:
            raise DoubtedListError(self._reason)

    def require_runs(self, *, asked: float) -> None:
        """Let nothing follow from a list of runs, asked for then, if these may hide them all.

        Raises:
            DoubtedListError: they do.
        """
        if self._hidden_runs.were_hidden(asked=asked):
            raise DoubtedListError(self._reason)
        self._publish_open()

    @property
    def hides_runs(self) -> bool:
        """True while the runs of what it lists are hidden with all of it."""
        return bool(self._hidden_runs.kinds)

    async def verify(
        self,
        missing: Sequence[str],
        *,
        shows_known: bool,
        must_be_listed: MustBeListed,
        remove: Remove,
        most_reads: int = _READS,
        hidden_seconds: float = 0.0,
    ) -> None:
        """Read some of what the list lacks and draw the conclusions; then as `require`.

        ``shows_known``: the list shows something that had been known, so it is not wholly another.
        ``hidden_seconds``: how long a believed list waits for what is refused before `remove`.

        Raises:
            DoubtedListError: some of it is not verified yet, or the list is wrong.
            WorkspaceError: an id could not be read; nothing was concluded.
        """
        self._forget_all_but(missing)
        if not missing:
            self._vanished_at = None
            if shows_known:
                self.found_whole()
            self.require()
            return
        answers = await self._answers(missing, must_be_listed, most_reads)
        hidden = self._record_hidden(answers)
        explained = await self._explained_of(missing, answers, shows_known=shows_known)
        await self._remove(explained, remove, is_gone=False)
        answers = {id_: answer for id_, answer in answers.items() if id_ not in explained}
        hidden = [id_ for id_ in hidden if id_ not in explained]
        listed, gone = _those(answers, _Answer.LISTED), _those(answers, _Answer.GONE)
        settled = explained | set(_those(answers, _Answer.CHANGED))
        open_ids = [id_ for id_ in missing if id_ not in settled]
        is_all_refused = bool(hidden) and not (shows_known or listed)
        await self._hidden_runs.judge(min(self._hidden.values()) if is_all_refused else None)
        self._publish_open()
        self.doubt(listed, "the workspace shows it by its id")
        if open_ids and not shows_known and not listed:
            if explained:  # the rest perhaps too: pipelines are read a few at a time
                raise self._not_read_yet(open_ids)
            if self._have_vanished(open_ids):
                self.doubt(open_ids, "nothing that was known is shown any more")
                raise DoubtedListError(self._reason)
        if not shows_known:
            self.doubt(hidden, "it may not be read either")
        await self._remove(gone, remove, is_gone=True)
        due = hidden_seconds if shows_known and not self.is_doubted else HIDDEN_SECONDS
        await self._remove(self._hidden_for(hidden, due), remove, is_gone=False)
        self.require()
        if len(open_ids) > len(gone) + len(hidden):
            raise self._not_read_yet(open_ids)

    def _not_read_yet(self, ids: Collection[str]) -> DoubtedListError:
        lacking = f"the list of {self._name} lacks {_named(ids)}"
        return DoubtedListError(f"{lacking}: not all of them are read yet")

    async def _answers(
        self, missing: Sequence[str], must_be_listed: MustBeListed, most_reads: int
    ) -> dict[str, _Answer]:
        """Read those whose turn it is."""
        asked = self._context.clock.monotonic()
        answers = {id_: await self._ask(id_, must_be_listed) for id_ in self._next(missing)}
        if answers:
            is_absent = all(answer in _ABSENT for answer in answers.values())
            self._reads = min(2 * self._reads, most_reads) if is_absent else _READS
        if _those(answers, _Answer.LISTED):
            self._recognition.record(asked=asked)
        return answers

    async def _explained_of(
        self, missing: Sequence[str], answers: dict[str, _Answer], *, shows_known: bool
    ) -> frozenset[str]:
        """Return what need not be answered one by one: see `explained`."""
        odd = set(answers.values()) - {_Answer.CHANGED, *([_Answer.GONE] if shows_known else ())}
        if not odd:
            return frozenset()
        return await self.explained(
            [id_ for id_ in missing if answers.get(id_) is not _Answer.CHANGED]
        )

    def _next(self, missing: Sequence[str]) -> list[str]:
        """Return the ids to read now: what was never read, then what was read longest ago."""
        now = self._context.clock.monotonic()
        newest = max((self._asked.get(id_, -1.0) for id_ in missing), default=-1.0)
        if self.is_doubted and newest >= 0 and now - newest < _ASK_AGAIN_SECONDS:
            return []
        in_turn = sorted(missing, key=lambda id_: self._asked.get(id_, -1.0))
        asked = in_turn[: self._reads]
        self._asked |= dict.fromkeys(asked, now)
        return asked

    async def _ask(self, id_: str, must_be_listed: MustBeListed) -> _Answer:
        try:
            return _Answer.LISTED if await must_be_listed(id_) else _Answer.CHANGED
        except NoSuchObjectError:
            return _Answer.GONE
        except (NotAvailableError, RequestRejectedError) as error:
            log.info("missing row not readable", list=self._name, id=id_, reason=str(error))
            return _Answer.HIDDEN

    async def _remove(self, ids: Collection[str], remove: Remove, *, is_gone: bool) -> None:
        for id_ in ids:
            await remove(id_, is_gone)
        self.clear(ids)

    def _record_hidden(self, answers: dict[str, _Answer]) -> list[str]:
        """Return all that is missing and was refused when it was last read."""
        now = self._context.clock.monotonic()
        for id_, answer in answers.items():
            if answer is _Answer.HIDDEN:
                self._hidden.setdefault(id_, now)
            else:
                self._hidden.pop(id_, None)
        return list(self._hidden)

    def _hidden_for(self, hidden: Sequence[str], seconds: float) -> list[str]:
        now = self._context.clock.monotonic()
        return [id_ for id_ in hidden if now - self._hidden[id_] >= seconds]

    def _have_vanished(self, missing: Sequence[str]) -> bool:
        """True where many vanished at once, and the workspace has shown nothing known since."""
        if len(missing) < ALL_AT_ONCE and self._vanished_at is None:
            return False
        if self._vanished_at is None:
            self._vanished_at = self._context.clock.monotonic()
        return not self._recognition.is_since(self._vanished_at)

    def _forget_all_but(self, missing: Sequence[str]) -> None:
        """Keep what is still missing in mind, and nothing else."""
        now, kept = self._context.clock.monotonic(), set(missing)
        self._asked = {id_: at for id_, at in self._asked.items() if id_ in kept}
        self._hidden = {id_: at for id_, at in self._hidden.items() if id_ in kept}
        self._lacking |= {id_: now for id_ in self._lacking if id_ in kept}

    def _expire(self) -> None:
        # Another poll of the list renews its own doubts; what no poll lacks any more is over.
        limit = self._context.clock.monotonic() - 3 * self._context.settings.reconcile_seconds
        if any(at < limit for at in self._lacking.values()):
            self._lacking = {id_: at for id_, at in self._lacking.items() if at >= limit}
            self._publish()

    def _publish_open(self) -> None:
        if self._lacking:
            self._publish()

    def _publish(self) -> None:
        context = self._context
        before = context.live_state.workspaces[context.name].doubted
        after = [doubted for doubted in before if doubted.name != self._name]
        if self._lacking and self._since is not None:
            unwatched = (*self.unwatched, *self._hidden_runs.kinds)
            after.append(
                DoubtedList(
                    name=self._name, since=self._since, reason=self._reason, unwatched=unwatched
                )
            )
        elif len(after) < len(before):
            log.info("list whole again", workspace=context.name, list=self._name)
        if not self._lacking:
            self._since = None
            self._hidden_runs.end()
        doubted = tuple(sorted(after, key=lambda doubted: doubted.name))
        if doubted != before:
            context.live_state.update_workspace(context.name, doubted=doubted)


class ListChecks:
    """The lists of one workspace."""

    def __init__(self, context: PollContext) -> None:
        anything = Recognition()
        # A token that shows the flows need not show their runs, nor all kinds of them.
        self.any_run = Recognition(whole=anything)
        self.known_runs = {kind: Recognition(whole=self.any_run) for kind in RunKind}

        self.unshared = UnsharedPipelines(context)

        def check(name: str, *kinds: RunKind) -> ListCheck:
            runs = {kind: self.known_runs[kind] for kind in kinds}
            return ListCheck(context, name, anything, unwatched=(name,), runs=runs)

        def check_runs(name: str, kind: RunKind, *unwatched: RunKind) -> ListCheck:
            explain, recognition = partial(self.unshared.explain, kind), self.known_runs[kind]
            return ListCheck(context, name, recognition, unwatched=unwatched, explain=explain)

        self.of_runs = {
            RunKind.JOB_GROUP: check_runs(
                "job groups", RunKind.JOB_GROUP, RunKind.JOB_GROUP, RunKind.FLOW_RUN
            ),
            RunKind.PLAN_RUN: check_runs("plan runs", RunKind.PLAN_RUN, RunKind.PLAN_RUN),
        }
        self.flows = check("flows", RunKind.JOB_GROUP, RunKind.FLOW_RUN)
        self.plans = check("plans", RunKind.PLAN_RUN)
        # By what their lists show.
        self.of_pipelines = {RunKind.JOB_GROUP: self.flows, RunKind.PLAN_RUN: self.plans}
        self.schedules = check(SCHEDULES)


def _those(answers: dict[str, _Answer], which: _Answer) -> list[str]:
    return [id_ for id_, answer in answers.items() if answer is which]


def _named(ids: Collection[str]) -> str:
    named = sorted(ids)[:_NAMED]
    rest = f" and {len(ids) - len(named)} more" if len(ids) > len(named) else ""
    return f"{', '.join(named)}{rest}"
