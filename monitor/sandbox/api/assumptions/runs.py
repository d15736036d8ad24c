"""What is assumed of job groups, flow runs and their results."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="scope-of-runs",
        operations=(
            "listJobLibrary",
            "countJobLibrary",
            "listPlanSnapshotRuns",
            "countPlanSnapshotRuns",
        ),
        text=(
            "Job library and plan runs default to the caller's own. `runBy=all` shows one's "
            "own runs, and those of flows and plans that one owns or that are shared; to an "
            "administrator everything."
        ),
    ),
    Assumption(
        key="scope-of-job-groups",
        operations=("listJobGroups",),
        text="Shows what the job library shows for `runBy=all`.",
    ),
    Assumption(
        key="library-rows",
        operations=("listJobLibrary",),
        text=(
            "Rows carry the flow run and the recipe's flow. The fault `library_rows=bare` "
            "leaves both out, as rows recorded in 2026 did."
        ),
    ),
    Assumption(
        key="people-in-rows",
        operations=("listJobLibrary",),
        text=(
            "Rows carry their creator's record, as rows of 2026 did, though no 14 KB of it; "
            "elsewhere `creator` is an id unless embedded."
        ),
    ),
    Assumption(
        key="library-type",
        operations=(
            "listJobLibrary",
            "countJobLibrary",
        ),
        text="The parameter `type` has no effect.",
    ),
    Assumption(
        key="embeds-of-jobs",
        operations=(
            "getJobsForJobGroup",
            "getJobGroup",
        ),
        text=(
            "Jobs embed what published clients read: the error, the write setting of a "
            "writing job (in the job itself), and where results went, with a path that is a "
            "list in a text. All job groups work in the same region."
        ),
    ),
    Assumption(
        key="cp-job-id",
        operations=("getJobsForJobGroup",),
        text=("Only Dataflow gives jobs a `cpJobId`; a run asks for it by `overrides.execution`."),
    ),
    Assumption(
        key="starting-runs",
        operations=(
            "runJobGroup",
            "runFlow",
            "runPlan",
        ),
        text=(
            "Starting a run answers 201, for flows and plans as for job groups. What has "
            "nothing to run, or a plan whose flow is deleted, is refused (400) instead of "
            "being started."
        ),
    ),
    Assumption(
        key="execution-ids",
        operations=(
            "runJobGroup",
            "runFlow",
            "runPlan",
        ),
        text=(
            "`x-execution-id` is remembered for the whole workspace, per operation, for the "
            "last 10,000."
        ),
    ),
    Assumption(
        key="errors-of-jobs",
        operations=("getJobsForJobGroup",),
        text="The error of a job is an object with a `message`.",
    ),
    Assumption(
        key="run-overrides",
        operations=("runJobGroup", "runFlow"),
        text=(
            "`overrides` holds `execution`, `profiler` and `writesettings` (also written "
            "`writeSettings`), for a flow by the name of a recipe. Overridden write settings "
            "replace those of the outputs in this run, stand in no list, and leave publications "
            "as they are. `runParameters.overrides` is `{data: [{key, value}]}` or an object by "
            "key. A flow's own value of a parameter gives way to that of a plan's node, and both "
            "to that of the run."
        ),
    ),
    Assumption(
        key="results-stay",
        operations=(
            "getJobGroupInputs",
            "getJobGroupOutputs",
            "getPublicationsForJobGroup",
        ),
        text=(
            "What a run reads and makes is decided when it starts: edits of its outputs or inputs "
            "change later runs only."
        ),
    ),
    Assumption(
        key="scheduled-outputs",
        operations=("runFlow",),
        text=(
            "`scheduleExecutionId` makes the scheduled outputs, for any starter of the run; where "
            "a recipe has no output of that kind, all its outputs are made."
        ),
    ),
    Assumption(
        key="test-mode",
        operations=("runJobGroup",),
        text="`testMode` answers 201 like every run, and neither starts nor remembers anything.",
    ),
    Assumption(
        key="options-without-effect",
        operations=("runJobGroup", "runFlow"),
        text=(
            "`forceCacheUpdate`, `ignoreRecipeErrors`, `runAsync`, and options of Spark, "
            "Databricks and schema drift are validated and have no effect."
        ),
    ),
)
