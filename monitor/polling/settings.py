"""The settings of the polling of one workspace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.errors import ConfigurationError
from monitor.model.outside import is_id_of, why_no_id
from monitor.model.runs import RunKey, RunKind
from monitor.model.settings import Setting, not_empty


def followed_run(workspace: str, text: str) -> RunKey:
    """Return the run that an entry of ``follow`` names.

    Raises:
        ConfigurationError: it is not a kind and an id with a slash between them.
    """
    kind, _, run_id = text.partition("/")
    if kind not in tuple(RunKind):
        kinds = ", ".join(RunKind)
        raise ConfigurationError(f"follow: {text!r} is not KIND/ID with KIND one of {kinds}")
    if not is_id_of(RunKind(kind), run_id):
        raise ConfigurationError(f"follow: {why_no_id(RunKind(kind), run_id)}")
    return RunKey(workspace=workspace, kind=RunKind(kind), id=run_id)


def _runs(texts: list[str]) -> str | None:
    try:
        for text in texts:
            followed_run("workspace", text)
    except ConfigurationError:
        return (
            'each must be KIND/ID, such as "job_group/123", "flow_run/7" or "plan_run/9"; job '
            "groups and flow runs have numbers"
        )
    return None


class PollSettings(Struct, frozen=True, kw_only=True):
    """What is polled from this workspace, and how often."""

    active_seconds: Annotated[
        float, Meta(ge=1, le=3_600), Setting("Interval of polls for changes while runs are active.")
    ] = 5.0
    idle_seconds: Annotated[
        float,
        Meta(ge=1, le=3_600),
        Setting(
            "Interval of polls for changes while nothing runs, and of plan runs while none of them "
            "is known to run; a start is noticed that late."
        ),
    ] = 30.0
    active_runs_limit: Annotated[
        int,
        Meta(ge=100, le=1_000_000),
        Setting(
            "Active runs that are followed at once; each takes some KiB of memory. Further ones "
            "are not seen before some end, and the workspace is degraded meanwhile."
        ),
    ] = 10_000
    jitter_share: float = 0.1  # of an interval, so that many monitors do not poll in step
    wake_gap_seconds: float = 1.0  # callbacks cause at most one poll in this time
    reconcile_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        Setting(
            "Interval of reconciliation: active runs are compared with what the workspace lists."
        ),
    ] = 300.0
    relist_seconds: Annotated[
        float,
        Meta(ge=60, le=86_400),
        Setting("Interval at which reconciliation lists every run created in the last day."),
    ] = 3_600.0
    overlap_seconds: Annotated[
        float,
        Meta(ge=0, le=86_400),
        Setting("How far each poll reaches back before the previous one; covers late commits."),
    ] = 120.0
    first_look_seconds: Annotated[
        float,
        Meta(ge=0, le=30 * 86_400),
        Setting("How far back the very first poll reads; runs that ended before make no events."),
    ] = 86_400.0
    names_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        Setting("Interval of polls for the names of flows, plans and recipes."),
    ] = 600.0
    schedules_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        Setting("Interval of polls for schedules; a missed start is reported after the next poll."),
    ] = 300.0
    detail_wait_seconds: Annotated[
        float,
        Meta(ge=0, le=60),
        Setting(
            "How long the event of a failed run may wait for its reason, where the request budget "
            "allows to read it in that time; 0 emits it at once. Other ends never wait.",
            section="workspaces.callbacks",
        ),
    ] = 1.0
    # How long after the end of a run its plan run is still looked up; alerting waits as long.
    link_wait_seconds: float = 15.0
    progress_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400),
        Setting("Minimum interval between reads of an active job group's progress."),
    ] = 60.0
    ranfor: Annotated[
        tuple[str, ...],
        Setting(
            "Values of ranfor whose job groups are followed as runs; others are only counted.",
            check=not_empty,
        ),
    ] = ("recipe", "plan", "extract", "publish", "profile")
    follow: Annotated[
        tuple[str, ...],
        Setting(
            'Runs to follow by id, as "job_group/123"; needed where the API cannot list runs.',
            check=_runs,
        ),
    ] = ()
    flow_run_wait_cap_seconds: float = 60.0  # longest wait between two reads of a flow run
    # Longest wait between two tries of a workspace that is cut off, unless it asked for a pause.
    recovery_seconds: float = 30.0
    # A poll that takes longer is stopped; rows that it has handled are not read again.
    longest_poll_seconds: float = 3_600.0
    attempts: int = 5  # to read one run by its id, before it is taken as it is or given up
    remembered_recipes: int = 10_000  # recipes whose flow is remembered
    waiting_details: int = 10_000  # ended job groups that may wait for their job records

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        if self.idle_seconds >= self.active_seconds:
            return []
        return [f"idle_seconds: must not be below active_seconds, which is {self.active_seconds:g}"]


class InventorySettings(Struct, frozen=True, kw_only=True):
    """Inventory: objects, connections, tokens, usage and quality.

    Polled last, and only where the edition supports it.
    """

    interval_seconds: Annotated[
        float, Meta(ge=300, le=86_400), Setting("Poll interval of each of the following.")
    ] = 900.0
    objects: Annotated[
        bool, Setting("Count flows, plans, datasets and other objects: dataprep_objects.")
    ] = True
    connections: Annotated[
        bool,
        Setting(
            "Test connections: dataprep_connection_up, and an event for each change. Each "
            "test opens the connection, which may start a paused database and cost money."
        ),
    ] = False
    tokens: Annotated[
        bool, Setting("Read the expiry of access tokens: dataprep_token_expiry_timestamp_seconds.")
    ] = True
    schedules: Annotated[bool, Setting("Emit an event when a schedule is enabled or disabled.")] = (
        True
    )
    configuration: Annotated[
        bool,
        Setting("Emit an event for each change of the workspace's settings; secrets are masked."),
    ] = True
    usage: Annotated[
        bool, Setting("Read this month's usage as the workspace reports it: dataprep_usage.")
    ] = True
    profiles: Annotated[
        bool,
        Setting(
            "Read valid, mismatched and missing values of profiled outputs: "
            "dataprep_output_values_ratio."
        ),
    ] = True
    connections_at_once: int = 200  # read at once
    profiles_at_once: int = 100  # read in one reading; the others in the next
    outputs: int = 2_000  # whose quality is remembered
    settings: int = 2_000  # of the workspace's configuration that are compared
