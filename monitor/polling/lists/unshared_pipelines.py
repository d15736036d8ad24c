"""Flows and plans that are no longer shared with the token's owner, beside others that are.

Such a flow leaves the list of flows, its runs leave theirs, and each of them is refused by its id.
That is evidence about this flow and nothing else, as long as another one that was known answers by
its id: the workspace is the one that it was, and its lists lack what they must lack.

One that is shown again stays among them until the list of changes of its runs has shown what it did
meanwhile: until then nothing may be judged of it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import NoSuchObjectError, NotAvailableError, RequestRejectedError
from monitor.model.live_state import UnsharedPipeline, pipeline_key
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_READS = 24  # at once, of pipelines; what is more is read the next time
_WITNESSES = 3  # others, one of them must answer; and so many that do show that a list lies
_READ_AGAIN = 3  # at a time, of those that are not shared
# So long what is only refused counts as hidden: a right may be withdrawn for a while.
HIDDEN_SECONDS = 86_400.0

# What lists the runs of a kind of pipeline, and which kind of run it shows.
_RUNS_LISTED_BY = {
    PipelineKind.FLOW: (Capability.LIST_CHANGES, RunKind.JOB_GROUP),
    PipelineKind.PLAN: (Capability.LIST_PLAN_RUNS, RunKind.PLAN_RUN),
}

_Refused = dict[Pipeline, str]  # with the reason


class UnsharedPipelines:
    """Those of one workspace; live state holds them, over restarts too."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._shown_again: set[str] = set()  # keys; their runs are still to be read
        # When the list that showed each last was requested, workspace time; ids of the last list.
        self._listed_at: dict[PipelineKind, dict[str, datetime]] = defaultdict(dict)
        self._listed: dict[PipelineKind, deque[str]] = defaultdict(deque)

    @property
    def _known(self) -> dict[str, UnsharedPipeline]:
        return self._context.live_state.workspaces[self._context.name].unshared

    @property
    def _hidden(self) -> dict[str, UnsharedPipeline]:
        """Those that are not shown again."""
        known = self._known.items()
        return {key: pipeline for key, pipeline in known if key not in self._shown_again}

    def ids(self, kind: PipelineKind) -> frozenset[str]:
        """Return those of one kind that are hidden now."""
        hidden = (unshared.pipeline for unshared in self._hidden.values())
        return frozenset(pipeline.id for pipeline in hidden if pipeline.kind is kind)

    async def explain(self, kind: RunKind, run_ids: Collection[str]) -> frozenset[str]:
        """Return those of the runs that are hidden because their pipelines are.

        Raises:
            WorkspaceError: a pipeline could not be read; nothing was concluded.
        """
        runs_of = await self._by_pipeline(kind, run_ids)
        known = self._hidden
        hidden = {
            pipeline for pipeline in runs_of if pipeline_key(pipeline.kind, pipeline.id) in known
        }
        refused: _Refused = {}
        shown = 0
        unread = sorted(runs_of.keys() - hidden, key=lambda pipeline: (pipeline.kind, pipeline.id))
        for pipeline in unread[:_READS]:
            try:
                why = await self._why_refused(pipeline)
            except NoSuchObjectError:
                hidden.add(pipeline)  # it was deleted, and its runs with it
                self._dismiss(pipeline)
                continue
            if why is not None:
                refused[pipeline] = why
                continue
            shown += 1
            if shown == _WITNESSES:
                break  # a list lies: what else it lacks is read by their own ids
        hidden |= refused.keys()
        # What was not read yet may be hidden as well, and is no witness.
        if not hidden or not (shown or await self._has_witness(beside=runs_of.keys())):
            return frozenset()
        self._add(refused)
        return frozenset().union(*(runs_of[pipeline] for pipeline in hidden))

    async def _by_pipeline(
        self, kind: RunKind, run_ids: Collection[str]
    ) -> dict[Pipeline, frozenset[str]]:
        keys = [self._context.key(kind, run_id) for run_id in run_ids]
        runs = await self._context.observer.known(keys) if keys else {}
        gathered: defaultdict[Pipeline, set[str]] = defaultdict(set)
        for key, run in runs.items():
            if run.pipeline is not None:
                named = Pipeline(kind=run.pipeline.kind, id=run.pipeline.id, name=None)
                gathered[named].add(key.id)
        return {pipeline: frozenset(ids) for pipeline, ids in gathered.items()}

    async def refused(self, kind: PipelineKind, ids: Iterable[str]) -> None:
        """The list lacks these pipelines, and their own reads were refused.

        Raises:
            WorkspaceError: another one could not be read; nothing was concluded.
        """
        new = {Pipeline(kind=kind, id=id_, name=None) for id_ in ids} - {
            unshared.pipeline for unshared in self._hidden.values()
        }
        if new and await self._has_witness(beside=new):
            self._add(dict.fromkeys(new, "its own read is refused"))

    def listed(
        self, kind: PipelineKind, ids: Collection[str], *, at: datetime, missed: Collection[str]
    ) -> None:
        """A list that was requested ``at`` shows these, and not what is ``missed`` in it."""
        known = self._listed_at[kind]
        missed_at = {id_: known[id_] for id_ in missed if id_ in known}
        self._listed_at[kind] = missed_at | dict.fromkeys(ids, at)
        self._listed[kind] = deque(ids)

    def shown_until(self, kind: PipelineKind, ids: Iterable[str]) -> datetime | None:
        """Return when the last list that showed any of these was requested, workspace time."""
        known = self._listed_at[kind]
        return max((known[id_] for id_ in ids if id_ in known), default=None)

    def overdue(self, kind: PipelineKind) -> frozenset[str]:
        """Return those that were not seen for so long that they are to be forgotten."""
        limit = self._context.workspace_now() - timedelta(seconds=HIDDEN_SECONDS)
        hidden = self._hidden.values()
        old = (unshared.pipeline for unshared in hidden if unshared.hidden_from < limit)
        return frozenset(pipeline.id for pipeline in old if pipeline.kind is kind)

    def forget(self, kind: PipelineKind, pipeline_id: str) -> None:
        """It is forgotten, and so are its runs."""
        key = pipeline_key(kind, pipeline_id)
        self._shown_again.discard(key)
        if key in self._known:
            log.info("unshared pipeline forgotten", workspace=self._context.name, pipeline=key)
            self._publish(unshared for name, unshared in self._known.items() if name != key)

    def shown(self, kind: PipelineKind, ids: Iterable[str]) -> None:
        """The workspace shows these again, or they are gone."""
        hidden = self._hidden
        returned = [key for id_ in ids if (key := pipeline_key(kind, id_)) in hidden]
        if returned:
            log.info(
                "pipelines shared again, or gone",
                workspace=self._context.name,
                count=len(returned),
                first=hidden[returned[0]].pipeline.id,
            )
            self._shown_again.update(returned)
        capability, run_kind = _RUNS_LISTED_BY[kind]
        if not self._context.can(capability):
            self.caught_up(self.shown_again(run_kind))  # no list will show their runs

    def shown_again(self, kind: RunKind) -> dict[str, datetime]:
        """Return from when on the list of a kind of run must be read for what is shown again."""
        return {
            key: unshared.hidden_from
            for key, unshared in self._known.items()
            if key in self._shown_again and _RUNS_LISTED_BY[unshared.pipeline.kind][1] is kind
        }

    def caught_up(self, keys: Collection[str]) -> None:
        """The list of changes has shown what these did while they were hidden."""
        over = self._shown_again & set(keys)  # others were hidden again meanwhile
        self._shown_again -= over
        if over:
            self._publish(unshared for key, unshared in self._known.items() if key not in over)

    async def read_again(self) -> None:
        """Read some of them by their ids, those that were read longest ago first.

        Raises:
            WorkspaceError: one could not be read.
        """
        for key, unshared in list(self._hidden.items())[:_READ_AGAIN]:
            pipeline = unshared.pipeline
            try:
                is_shown = await self._why_refused(pipeline) is None
            except NoSuchObjectError:
                is_shown = True
            if is_shown:
                self.shown(pipeline.kind, (pipeline.id,))
            else:
                others = [other for name, other in self._known.items() if name != key]
                self._publish([*others, unshared])

    async def _why_refused(self, pipeline: Pipeline) -> str | None:
        """Return how the pipeline's own read is refused, None where it is shown.

        Raises:
            NoSuchObjectError: there is none.
        """
        pipelines = self._context.client.pipelines
        read = pipelines.flow if pipeline.kind is PipelineKind.FLOW else pipelines.plan_full
        try:
            await read(pipeline.id, priority=Priority.RECONCILIATION)
        except (NotAvailableError, RequestRejectedError) as error:
            return str(error)
        return None

    def _in_turn(self, kind: PipelineKind) -> Iterator[str]:
        """Yield what was listed last; what is taken is last from then on.

        What merely runs may be another owner's, who does not share it.
        """
        ids = self._listed[kind]
        for _ in range(len(ids)):
            ids.rotate(-1)
            yield ids[-1]

    async def _has_witness(self, *, beside: Collection[Pipeline]) -> bool:
        """True where another pipeline that was known answers by its id."""
        left = {(pipeline.kind, pipeline.id) for pipeline in beside} | {
            (unshared.pipeline.kind, unshared.pipeline.id) for unshared in self._hidden.values()
        }
        own_first = sorted(
            PipelineKind, key=lambda kind: all(other.kind is not kind for other in beside)
        )
        others = (
            Pipeline(kind=kind, id=id_, name=None)
            for kind in own_first
            for id_ in self._in_turn(kind)
            if (kind, id_) not in left
        )
        for pipeline in list(islice(others, _WITNESSES)):
            try:
                if await self._why_refused(pipeline) is None:
                    return True
            except NoSuchObjectError:
                self._dismiss(pipeline)
        return False

    def _dismiss(self, pipeline: Pipeline) -> None:
        """It is denied, and no witness before a list shows it again."""
        ids = self._listed[pipeline.kind]
        if pipeline.id in ids:
            ids.remove(pipeline.id)

    def _add(self, refused: _Refused) -> None:
        context = self._context
        now = context.workspace_now()
        latest = now - timedelta(seconds=context.settings.reconcile_seconds)
        known = self._known
        self._shown_again -= {pipeline_key(pipeline.kind, pipeline.id) for pipeline in refused}
        new = [
            UnsharedPipeline(
                pipeline=pipeline,
                since=context.clock.now(),
                hidden_from=min(latest, self._listed_at[pipeline.kind].get(pipeline.id, now)),
                reason=f"{self._named(pipeline)} is no longer shared with the token's owner: {why}",
            )
            for pipeline, why in refused.items()
            if pipeline_key(pipeline.kind, pipeline.id) not in known
        ]
        for unshared in new:
            log.warning("pipeline no longer shared", workspace=context.name, reason=unshared.reason)
        if new:
            self._publish([*known.values(), *new])

    def _named(self, pipeline: Pipeline) -> str:
        """Return such as "flow 20 (Sales)"."""
        identity = (self._context.name, pipeline.kind, pipeline.id)
        name = self._context.live_state.names.name_of(identity)
        return f"{pipeline.kind} {pipeline.id}" + (f" ({name})" if name else "")

    def _publish(self, unshared: Iterable[UnsharedPipeline]) -> None:
        """Show them, those that were read longest ago first."""
        by_key = {pipeline_key(each.pipeline.kind, each.pipeline.id): each for each in unshared}
        self._context.live_state.update_workspace(self._context.name, unshared=by_key)
