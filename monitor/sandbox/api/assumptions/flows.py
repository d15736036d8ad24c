"""What is assumed of flows and folders."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="flow-names",
        operations=("createFlow", "patchFlow", "copyFlow", "createFolder"),
        text=(
            'A flow or folder without a name is "Untitled ...", a copy "Copy of ...". Names need '
            "not be unique; with `incrementName` a number in brackets makes them so among the "
            "owner's flows. An empty name counts as absent when a flow is made or copied."
        ),
    ),
    Assumption(
        key="flow-copies",
        operations=("copyFlow",),
        text=(
            "Everybody who sees a flow may copy it. The copy has everything but webhooks and "
            "people, and reads the same data unless `copyDatasources` copies that too. It stays "
            "in the folder where that is the copier's own."
        ),
    ),
    Assumption(
        key="flow-deletion",
        operations=("deleteFlow", "deleteFolder"),
        text=(
            "A flow takes with it all that is in it. Its runs stay, schedules that only started "
            "it are disabled, and plans that run it are refused. Flows leave a deleted folder."
        ),
    ),
    Assumption(
        key="flow-library",
        operations=("listFlowsLibrary", "countFlowsLibrary"),
        text=(
            "Folders come before flows, and each row has a `type`. The count has the numbers "
            "`all`, `flows`, `owned`, `shared` and `folders` of the rows that the query selects. "
            "Folders are their owner's own, and have the fields of flows, empty where they do not "
            "apply."
        ),
    ),
    Assumption(
        key="flow-edges",
        operations=("commitEdges",),
        text=(
            "`updateInfo` holds `edges`, or is one: `inputFlowNodeId`, `outputFlowNodeId`, "
            "`inPortId`, `outPortId`. An end that is left out is the node of the path. An edge "
            "lets its recipe read what the other node gives; circles are refused."
        ),
    ),
    Assumption(
        key="replaced-datasets",
        operations=("replaceDatasetInFlow",),
        text=(
            "The body names `newImportedDatasetId`, and what it replaces by "
            "`oldImportedDatasetId` or by the `flowNodeId` of that dataset. All recipes of the "
            "flow that read the old one then read the new one."
        ),
    ),
    Assumption(
        key="flow-sharing",
        operations=("shareFlow",),
        text=(
            "A row of `data` is a person's id or e-mail address, or an object with one of them "
            "and a `role` (collaborator unless said). Owners and administrators share; ownership "
            "is only handed over by the transfer of assets. Everybody with a part in the flow is "
            "answered, with the flow's dates."
        ),
    ),
    Assumption(
        key="flow-parameters",
        operations=("createFlowRunParameterOverride", "patchFlowRunParameterOverride"),
        text="A flow overrides a key once; the `value` may be any JSON.",
    ),
    Assumption(
        key="flow-notifications",
        operations=("createFlowNotificationSettings",),
        text="A flow has these settings once: making them again changes them. No mail is sent.",
    ),
)
