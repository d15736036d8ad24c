"""The rows of counters that the store keeps, one JSON value each.

Rows are kept by the id of the pipeline, so that a new name does not begin a new count.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.model.runs import RunKey, RunKind, RunState, Status, Trigger

DURATION_BOUNDS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800)
QUEUE_BOUNDS = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

# In place of a pipeline's id; no workspace makes such ids.
UNKNOWN = ""  # the workspace did not report the pipeline
OTHER = "*"  # all pipelines that the budget had no place for

OTHER_JOB_TYPE = "__other__"


class Identity(Struct, frozen=True, order=True, gc=False):
    """The labels of a pipeline's series: workspace, kind and, by its id, pipeline."""

    workspace: str
    kind: RunKind
    pipeline: str

    @property
    def key(self) -> str:
        return _key("runs", self.workspace, self.kind, self.pipeline)


class Buckets(Struct, frozen=True, gc=False):
    """A histogram. ``counts`` are not cumulative; the last one is above every bound.

    ``bounds`` are stored with the counts, so that a version with other bounds notices.
    """

    counts: tuple[int, ...]
    sum: float = 0.0
    bounds: tuple[float, ...] = ()

    def plus(self, index: int, value: float) -> Buckets:
        """Return the histogram with ``value`` added to the bucket at ``index``."""
        counts = (*self.counts[:index], self.counts[index] + 1, *self.counts[index + 1 :])
        return Buckets(counts=counts, sum=self.sum + value, bounds=self.bounds)


def _empty(bounds: tuple[float, ...]) -> Buckets:
    return Buckets((0,) * (len(bounds) + 1), bounds=bounds)


NO_DURATIONS = _empty(DURATION_BOUNDS)
NO_WAITS = _empty(QUEUE_BOUNDS)


class RunCounts(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="runs"):
    """What was counted for one pipeline and kind of run. ``name`` is the last one reported.

    ``corrected`` counts by the end that a callback had reported or parts had shown, then by the
    true one. Such an end opens its counts at 0.
    """

    identity: Identity
    name: str | None = None
    started: dict[Trigger, int] = {}
    ended: dict[Status, int] = {}
    corrected: dict[Status, dict[Status, int]] = {}
    durations: Buckets = NO_DURATIONS
    touched_at: datetime

    @property
    def key(self) -> str:
        return self.identity.key

    @property
    def needs_place(self) -> bool:
        return self.identity.pipeline not in (UNKNOWN, OTHER)


class QueueCounts(Struct, frozen=True, kw_only=True, tag="queue"):
    """How long runs of one kind waited between creation and start."""

    workspace: str
    kind: RunKind
    waits: Buckets = NO_WAITS

    @property
    def key(self) -> str:
        return _key("queue", self.workspace, self.kind)


class JobCounts(Struct, frozen=True, kw_only=True, tag="jobs"):
    """How the jobs of one type ended."""

    workspace: str
    job_type: str
    ended: dict[Status, int] = {}

    @property
    def key(self) -> str:
        return _key("jobs", self.workspace, self.job_type)


class AwaitedDurations(Struct, frozen=True, kw_only=True, tag="waiting"):
    """Runs that were counted as ended and whose duration is still to come, oldest first."""

    runs: tuple[RunKey, ...] = ()

    @property
    def key(self) -> str:
        return _key("waiting")


CounterRow = RunCounts | QueueCounts | JobCounts | AwaitedDurations


class RunExemplar(Struct, frozen=True, gc=False):
    """The run that last moved one series: an exemplar. ``at`` is a Unix time."""

    run_id: str
    value: float
    at: float


_DECODER: msgspec.json.Decoder[CounterRow] = msgspec.json.Decoder(CounterRow)


def decode_row(value: bytes) -> CounterRow:
    """Decode a stored row; its histogram may have other bounds.

    Raises:
        msgspec.MsgspecError: this is no row.
    """
    return _DECODER.decode(value)


def with_present_bounds(row: CounterRow) -> CounterRow:
    """Return the row itself, or with an empty histogram where a version with other bounds wrote it.

    The counts of other buckets cannot be split among the present ones. Counters are kept.
    """
    if isinstance(row, RunCounts) and not _fits(row.durations, NO_DURATIONS):
        return msgspec.structs.replace(row, durations=NO_DURATIONS)
    if isinstance(row, QueueCounts) and not _fits(row.waits, NO_WAITS):
        return msgspec.structs.replace(row, waits=NO_WAITS)
    return row


def _fits(buckets: Buckets, empty: Buckets) -> bool:
    return buckets.bounds == empty.bounds and len(buckets.counts) == len(empty.counts)


def identity_of(run: RunState) -> Identity:
    """Return the labels of the series to which a run belongs."""
    pipeline = run.pipeline.id if run.pipeline is not None else UNKNOWN
    return Identity(run.key.workspace, run.key.kind, pipeline)


def _key(*parts: str) -> str:
    # As JSON, because names and ids may hold any separator.
    return msgspec.json.encode(parts).decode()
