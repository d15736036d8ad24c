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
UNKNOWN = ""  # the workspace did not tell the pipeline
OTHER = "*"  # all pipelines that the budget had no place for

OTHER_JOB_TYPE = "__other__"


class Identity(Struct, frozen=True, order=True, gc=False):
    """Whose series these are: the labels workspace, kind and, by its id, pipeline."""

    workspace: str
    kind: RunKind
    pipeline: str

    @property
    def key(self) -> str:
        return _key("runs", self.workspace, self.kind, self.pipeline)


class Buckets(Struct, frozen=True, gc=False):
    """A histogram. ``counts`` are not cumulative; the last one is above every bound."""

    counts: tuple[int, ...]
    sum: float = 0.0

    def plus(self, place: int, value: float) -> Buckets:
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Buckets(counts=counts, sum=self.sum + value)


NO_DURATIONS = Buckets((0,) * (len(DURATION_BOUNDS) + 1))
NO_WAITS = Buckets((0,) * (len(QUEUE_BOUNDS) + 1))


class RunCounts(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="runs"):
    """What was counted for one pipeline and kind of run. ``name`` is the last one told."""

    identity: Identity
    name: str | None = None
    started: dict[Trigger, int] = {}
    ended: dict[Status, int] = {}
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
    """Job groups that were counted as ended and whose duration is still to come, oldest first."""

    runs: tuple[RunKey, ...] = ()

    @property
    def key(self) -> str:
        return _key("waiting")


Row = RunCounts | QueueCounts | JobCounts | AwaitedDurations


class RunExemplar(Struct, frozen=True, gc=False):
    """The run that last moved one series: an exemplar. ``at`` is a Unix time."""

    run_id: str
    value: float
    at: float


_DECODER: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)


def decode_row(value: bytes) -> Row:
    """Read a stored row.

    Raises:
        msgspec.MsgspecError: this is no row, or one of other buckets.
    """
    row = _DECODER.decode(value)
    if isinstance(row, RunCounts) and len(row.durations.counts) != len(NO_DURATIONS.counts):
        raise msgspec.ValidationError("the durations have other buckets")
    if isinstance(row, QueueCounts) and len(row.waits.counts) != len(NO_WAITS.counts):
        raise msgspec.ValidationError("the waits have other buckets")
    return row


def identity_of(run: RunState) -> Identity:
    """Return whose series a run belongs to."""
    pipeline = run.pipeline.id if run.pipeline is not None else UNKNOWN
    return Identity(run.key.workspace, run.key.kind, pipeline)


def _key(*parts: str) -> str:
    # As JSON, because names and ids may hold any separator.
    return msgspec.json.encode(parts).decode()
