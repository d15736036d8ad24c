"""The families of the collector: name, help, type and labels of each, in one table."""

from __future__ import annotations

from monitor.outputs.metrics.family_shapes import FamilyShape, FamilyType

WORKSPACE = ("workspace",)
PIPELINE = ("workspace", "pipeline")
IDENTITY = ("workspace", "kind", "pipeline")


def _watched(name: str, form: FamilyType, documentation: str, *labels: str) -> FamilyShape:
    return FamilyShape(f"dataprep_{name}", form, documentation, labels)


def _daemon(name: str, form: FamilyType, documentation: str, *labels: str) -> FamilyShape:
    return FamilyShape(f"dataprep_monitor_{name}", form, documentation, labels)


WORKSPACE_UP = _watched(
    "workspace_up",
    FamilyType.GAUGE,
    "1 while the workspace answers, 0 while it does not.",
    *WORKSPACE,
)
PIPELINE_INFO = _watched(
    "pipeline_info",
    FamilyType.INFO,
    "A flow or plan, its id, and the schedules that start it.",
    "workspace",
    "pipeline",
    "pipeline_kind",
    "pipeline_id",
    "schedule",
)
RUNS_STARTED = _watched(
    "runs_started_total", FamilyType.COUNTER, "Runs that began to work.", *IDENTITY, "trigger"
)
RUNS = _watched("runs_total", FamilyType.COUNTER, "Runs that ended.", *IDENTITY, "result")
RUNS_CORRECTED = _watched(
    "runs_corrected_total",
    FamilyType.COUNTER,
    "Ends that the workspace reported differently than a callback, their parts or itself before; "
    "both ends were counted.",
    *IDENTITY,
    "from",
    "to",
)
RUNS_ACTIVE = _watched(
    "runs_active", FamilyType.GAUGE, "Runs that have not ended.", *IDENTITY, "status"
)
RUN_DURATION = _watched(
    "run_duration_seconds",
    FamilyType.HISTOGRAM,
    "Seconds from a run's start, or its creation where no start is known, to its end.",
    *IDENTITY,
)
RUN_QUEUE = _watched(
    "run_queue_seconds",
    FamilyType.HISTOGRAM,
    "Seconds from a run's creation to its start, where both are known exactly.",
    "workspace",
    "kind",
)
OLDEST_ACTIVE = _watched(
    "oldest_active_run_timestamp_seconds",
    FamilyType.GAUGE,
    "When the oldest of the runs that have not ended was created.",
    *IDENTITY,
)
LAST_STARTED = _watched(
    "last_run_started_timestamp_seconds", FamilyType.GAUGE, "When a run last started.", *IDENTITY
)
LAST_COMPLETED = _watched(
    "last_run_completed_timestamp_seconds",
    FamilyType.GAUGE,
    "When a run last ended. A flow's last end is the later one of its kinds.",
    *IDENTITY,
)
LAST_SUCCESS = _watched(
    "last_run_success_timestamp_seconds",
    FamilyType.GAUGE,
    "When a run last succeeded; for job groups that of the recipe for which it is longest ago.",
    *IDENTITY,
)
LAST_DURATION = _watched(
    "last_run_duration_seconds",
    FamilyType.GAUGE,
    "How long the run that ended last took.",
    *IDENTITY,
)
LAST_RESULT = _watched(
    "last_run_result",
    FamilyType.GAUGE,
    "1 for how the run that ended last did so; for job groups the worst of its recipes.",
    *IDENTITY,
    "result",
)
FAILURES = _watched(
    "consecutive_failures",
    FamilyType.GAUGE,
    "Runs that failed since the last success; for job groups the most of any recipe.",
    *IDENTITY,
)
DURATION_LIMIT = _watched(
    "run_duration_limit_seconds",
    FamilyType.GAUGE,
    "How long a run may take, as learned from how long runs took.",
    *IDENTITY,
)
SUCCESS_AGE_LIMIT = _watched(
    "success_age_limit_seconds",
    FamilyType.GAUGE,
    "How long ago the last success may be, as learned from how far apart successes were.",
    *IDENTITY,
)
EXPECTED_START = _watched(
    "expected_start_timestamp_seconds",
    FamilyType.GAUGE,
    "The next start by the schedules that the token may see; one in the past is within its grace.",
    *PIPELINE,
)
MISSED_RUNS = _watched(
    "missed_runs_total",
    FamilyType.COUNTER,
    "Starts that a schedule should have made and for which no run came.",
    *PIPELINE,
)
DEADLINE = _watched(
    "deadline_timestamp_seconds", FamilyType.GAUGE, "The next deadline not yet decided.", *PIPELINE
)
DEADLINES = _watched(
    "deadlines_total", FamilyType.COUNTER, "Deadlines met, and missed.", *PIPELINE, "result"
)
JOBS = _watched(
    "jobs_total",
    FamilyType.COUNTER,
    "Jobs of ended job groups, by how they ended.",
    "workspace",
    "job_type",
    "result",
)
LIVE_STATE = _watched(
    "last_confirmed_timestamp_seconds",
    FamilyType.GAUGE,
    "When the API last showed all there is of one kind of run.",
    "workspace",
    "kind",
)
CLOCK_SKEW = _watched(
    "workspace_clock_skew_seconds",
    FamilyType.GAUGE,
    "How far the workspace's clock is ahead of ours.",
    *WORKSPACE,
)
HISTORY_READ = _watched(
    "history_read_timestamp_seconds",
    FamilyType.GAUGE,
    "Back to when all runs are known, until all of the first look is read; workspace time.",
    *WORKSPACE,
)
CAPABILITY = _watched(
    "capability",
    FamilyType.GAUGE,
    "1 for what the monitor can do there.",
    "workspace",
    "capability",
)
CAPABILITY_REFUSED = _watched(
    "capability_refused_timestamp_seconds",
    FamilyType.GAUGE,
    "Since when the workspace refuses what it offered before; absent while it does not.",
    "workspace",
    "capability",
)
UNSHARED_PIPELINES = _watched(
    "unshared_pipelines",
    FamilyType.GAUGE,
    "Flows and plans that were known and are no longer shared with the token's owner.",
    *WORKSPACE,
)
SCHEDULE_ENABLED = _watched(
    "schedule_enabled",
    FamilyType.GAUGE,
    "1 while a schedule that the token may see is enabled.",
    "workspace",
    "schedule",
)

OBJECTS = _watched(
    "objects", FamilyType.GAUGE, "Objects that the token may see.", "workspace", "type"
)
CONNECTION_UP = _watched(
    "connection_up",
    FamilyType.GAUGE,
    "1 if the workspace could open the connection when it was last asked.",
    "workspace",
    "connection",
)
TOKEN_EXPIRY = _watched(
    "token_expiry_timestamp_seconds",
    FamilyType.GAUGE,
    "When an access token of the token's owner expires.",
    "workspace",
    "token_id",
)
USAGE = _watched(
    "usage",
    FamilyType.GAUGE,
    "What the workspace says was used in this month, as served.",
    "workspace",
    "measure",
)
OUTPUT_VALUES = _watched(
    "output_values_ratio",
    FamilyType.GAUGE,
    "The share of an output's values that are valid, mismatched or missing in its newest profile.",
    "workspace",
    "pipeline",
    "output",
    "quality",
)
# The inventory: a workspace has no more than a few hundred of these series, within the budget.
INVENTORY: tuple[FamilyShape, ...] = (OBJECTS, CONNECTION_UP, TOKEN_EXPIRY, USAGE, OUTPUT_VALUES)

# Those of one pipeline and kind of run, with the most series that one such pair can have.
SERIES_OF_PIPELINE: dict[FamilyShape, int] = {
    RUNS_STARTED: 5,
    RUNS: 4,
    RUNS_CORRECTED: 6,
    RUN_DURATION: 15,
    RUNS_ACTIVE: 2,
    OLDEST_ACTIVE: 1,
    LAST_STARTED: 1,
    LAST_COMPLETED: 1,
    LAST_SUCCESS: 1,
    LAST_DURATION: 1,
    LAST_RESULT: 4,
    FAILURES: 1,
    DURATION_LIMIT: 1,
    SUCCESS_AGE_LIMIT: 1,
    EXPECTED_START: 1,
    MISSED_RUNS: 1,
    PIPELINE_INFO: 1,
    DEADLINE: 1,  # only of pipelines that a rule names, so not part of the idle ones
    DEADLINES: 2,
}
# Those that a pipeline has before it ever ran.
SERIES_OF_IDLE_PIPELINE: dict[FamilyShape, int] = {
    shape: SERIES_OF_PIPELINE[shape]
    for shape in (RUNS_STARTED, RUNS, RUNS_ACTIVE, EXPECTED_START, MISSED_RUNS, PIPELINE_INFO)
}

POLL_SUCCESS = _daemon(
    "poll_last_success_timestamp_seconds",
    FamilyType.GAUGE,
    "When a poll last went through.",
    "workspace",
    "poll",
)
CALLBACK_RECEIVED = _daemon(
    "callback_last_received_timestamp_seconds",
    FamilyType.GAUGE,
    "When a callback was last accepted.",
    *WORKSPACE,
)
WEBHOOK_TASKS = _daemon(
    "webhook_tasks",
    FamilyType.GAUGE,
    "Webhook tasks that the monitor keeps, by their state.",
    "workspace",
    "state",
)
CALLBACKS_MISSED = _daemon(
    "callbacks_missed_total",
    FamilyType.COUNTER,
    "Ended job groups for which the expected callback did not come.",
    *WORKSPACE,
)
CONSUMER_BACKLOG = _daemon(
    "consumer_backlog", FamilyType.GAUGE, "Events that a consumer has not taken yet.", "consumer"
)
CONSUMER_OLDEST = _daemon(
    "consumer_oldest_timestamp_seconds",
    FamilyType.GAUGE,
    "When the oldest event that a consumer has not taken was recorded.",
    "consumer",
)
EVENTS_LOST = _daemon(
    "events_lost_total",
    FamilyType.COUNTER,
    "Events that retention took from a consumer before it could read them.",
    "consumer",
)
DEAD_LETTERS = _daemon(
    "dead_letters",
    FamilyType.GAUGE,
    "Events that a receiver refused for good and that are kept for the operator.",
    "output",
)
ALERTS = _daemon(
    "alerts",
    FamilyType.GAUGE,
    "Alerts, by the rule's name; those that are resolved are shown for an hour.",
    "rule",
    "severity",
    "state",
)
ALERT_TRANSITIONS = _daemon(
    "alert_transitions_total",
    FamilyType.COUNTER,
    "Transitions of alerts, by the rule's name; survives restarts.",
    "rule",
    "to",
)
RULE_FAILURES = _daemon(
    "rule_evaluation_failures_total",
    FamilyType.COUNTER,
    "Failures to evaluate a rule, by its name; the other rules go on.",
    "rule",
)
KNOWN_PIPELINES = _daemon(
    "known_pipelines", FamilyType.GAUGE, "Flows and plans that are known.", *WORKSPACE
)
SILENCED_PIPELINES = _daemon(
    "silenced_pipelines",
    FamilyType.GAUGE,
    "Flows and plans whose failures notify no one now, because silences are active.",
    *WORKSPACE,
)
SILENCES = _daemon(
    "silences", FamilyType.GAUGE, "Silences that are at work or still to begin.", "state"
)
STORE_BYTES = _daemon("store_bytes", FamilyType.GAUGE, "Bytes that the store takes on disk.")
BUILD_INFO = _daemon(
    "build_info", FamilyType.INFO, "The version of the monitor.", "version", "python_version"
)
CONFIG_INFO = _daemon("config_info", FamilyType.INFO, "The configuration in force.", "hash")
CONFIG_SUCCESS = _daemon(
    "config_last_reload_successful",
    FamilyType.GAUGE,
    "1 if the configuration that was last read is in force, 0 if it was refused.",
)
CERTIFICATE_EXPIRY = _daemon(
    "certificate_expiry_timestamp_seconds",
    FamilyType.GAUGE,
    "When the certificate that a listener serves with expires.",
    "listener",
)
SERIES = _daemon("series", FamilyType.GAUGE, "Series of what is watched, as held to the budget.")
SERIES_DROPPED = _daemon(
    "series_dropped_total",
    FamilyType.COUNTER,
    "Series that the budget had no place for, each counted when it was first left out.",
    "metric",
)

SHAPES: tuple[FamilyShape, ...] = tuple(
    global_ for global_ in globals().values() if isinstance(global_, FamilyShape)
)
