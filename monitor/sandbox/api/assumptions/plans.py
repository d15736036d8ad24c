"""What is assumed of plans and their runs."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="schedule-of-manual-run",
        operations=("getScheduleForPlanRun",),
        text="The schedule of a run that was started by hand is 404 `DataNotFoundException`.",
    ),
    Assumption(
        key="flow-creator-info",
        operations=("getPlanSnapshotRun",),
        text="`includeFlowCreatorInfo` has no effect.",
    ),
    Assumption(
        key="plan-nodes",
        operations=("createPlanNode", "deletePlanNode"),
        text=(
            "A node is `planId`, `taskType`, and where they are wanted `name`, `handle` (else two "
            "free letters), `coordinates`, `inPlanNodeIds` with one `statusRule` for the edges "
            "from them (`success`), and its task: `flowId`, `flowNodeIds` and `webhooksEnabled`, "
            "beside the rest or in `task`, or `httpTask`. Tasks of other types are kept, do "
            "nothing and end well."
        ),
    ),
    Assumption(
        key="plan-overrides",
        operations=("createPlanOverride", "updatePlanOverride", "runPlan"),
        text=(
            "An override shows its node, key and value, which is any JSON. A parameter of a node "
            "has one of them (400 otherwise); `planNodeOverrides` of a run win over it. A key that "
            "nothing in the flow has is taken and changes nothing."
        ),
    ),
    Assumption(
        key="plan-run-parameters",
        operations=("planRunParameters", "getPlanNodeRunParameters"),
        text=(
            "One entry for each node: the datasets and outputs with parameters of what it runs, "
            "its overrides, and as `conflicts` the keys whose own values differ. `displayId` is "
            "the place of the node in its plan, from 1."
        ),
    ),
    Assumption(
        key="plan-permissions",
        operations=("sharePlan", "getPlanPermissions", "deletePlanPermissions"),
        text=(
            "Rows of `data` are ids, e-mail addresses or objects with `personId` or `email`, and "
            "a `role`: `collaborator` (without one) or `readOnly`. Only owner and administrators "
            "share; people may also give up what was shared with them."
        ),
    ),
    Assumption(
        key="original-plan",
        operations=("createPlan",),
        text="`originalPlanId` is kept and shown; nothing is copied from that plan.",
    ),
    Assumption(
        key="deleted-plans",
        operations=("deletePlan",),
        text=(
            "Nodes, edges and overrides go with a plan, its runs and snapshots stay, and a "
            "schedule that has nothing else to start is switched off."
        ),
    ),
)
