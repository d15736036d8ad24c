"""What can be set about the polling of one workspace."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.outside import is_run_id
from monitor.model.runs import RunKey, RunKind


class PollSettings(Struct, frozen=True, kw_only=True):
    """How often a workspace is polled, and what is followed there."""

    active_seconds: float = 5.0  # between two change polls while something runs
    idle_seconds: float = 30.0  # the same while nothing runs
    jitter_share: float = 0.1  # of an interval, so that many monitors do not poll in step
    wake_gap_seconds: float = 1.0  # callbacks cause at most one poll in this time
    reconcile_seconds: float = 300.0  # between two reconciliations of what is active
    relist_seconds: float = 3_600.0  # between two lists of what was created in the last day
    overlap_seconds: float = 120.0  # how far behind the watermark each change poll begins
    first_look_seconds: float = 86_400.0  # how far back the first change poll reads
    # What a job group may have run for; the workspace's words. All others are only counted.
    ranfor: tuple[str, ...] = ("recipe", "plan", "extract", "publish", "profile")
    follow: tuple[str, ...] = ()  # runs named by the operator, as "job_group/123"
    names_seconds: float = 600.0  # between two readings of the names of flows and plans
    schedules_seconds: float = 300.0  # between two readings of the schedules
    detail_wait_seconds: float = 1.0  # how long a failure may wait for its reason; 0: not at all
    # How long after the end of a run its plan run is still looked up; alerting waits as long.
    link_wait_seconds: float = 15.0
    progress_seconds: float = 60.0  # an active job group's records are read at most so often
    flow_run_wait_cap_seconds: float = 60.0  # longest wait between two reads of a flow run
    connect_wait_cap_seconds: float = 60.0  # longest wait between two attempts to reach it
    attempts: int = 5  # to read one run by its id, before it is taken as it is or given up
    remembered_recipes: int = 10_000  # recipes whose flow is remembered
    waiting_details: int = 10_000  # ended job groups that may wait for their job records


class InventorySettings(Struct, frozen=True, kw_only=True):
    """Which of a workspace's inventory is read; each only where the workspace serves it."""

    objects: bool = True
    tokens: bool = True
    schedules: bool = True
    configuration: bool = True
    usage: bool = True
    profiles: bool = True
    # Each check opens the connection, which may wake, and cost, what lies behind it.
    connections: bool = False
    interval_seconds: float = 900.0  # between two readings of each
    connections_at_once: int = 200  # read at once
    profiles_at_once: int = 100  # read in one reading; the others in the next
    outputs: int = 2_000  # whose quality is remembered
    settings: int = 2_000  # of the workspace's configuration that are compared


def followed_run(workspace: str, text: str) -> RunKey:
    """Return the run that an entry of ``follow`` names.

    Raises:
        ConfigurationError: it is not a kind and an id with a slash between them.
    """
    kind, _, run_id = text.partition("/")
    if kind not in tuple(RunKind) or not is_run_id(run_id):
        kinds = ", ".join(RunKind)
        raise ConfigurationError(f"follow: {text!r} is not KIND/ID with KIND one of {kinds}")
    return RunKey(workspace=workspace, kind=RunKind(kind), id=run_id)
