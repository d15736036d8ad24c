"""Samples of the operations on flows and folders."""

from __future__ import annotations

from monitor.sandbox.world.records.objects import Flow, ImportedDataset
from monitor.sandbox.world.records.parts import DatasetNode, FlowRunParameterOverride, Folder
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Put the owner's flow into a folder, and data and a parameter into the flow."""
    orders = living.things.orders
    folder = living.create(Folder, name="Sales")
    living.workspace.world.update(orders, folder_id=folder.id)
    living.create(FlowRunParameterOverride, flow_id=orders.id, override_key="region", value="north")
    living.create(DatasetNode, flow_id=orders.id, dataset_id=living.first(ImportedDataset).id)


def _edge(living: Living) -> dict[str, object]:
    return {"updateInfo": {"inputFlowNodeId": living.newest(DatasetNode).id, "inPortId": 0}}


def _of_orders(living: Living) -> tuple[int]:
    return (living.things.orders.id,)


SAMPLES = {
    "createFlow": Sample(body=lambda _: {"name": "New flow", "incrementName": True}),
    "listFlows": Sample(),
    "countFlows": Sample(),
    "getFlow": Sample(path=of(Flow)),
    "patchFlow": Sample(path=_of_orders, body=lambda _: {"description": "of the north"}),
    "copyFlow": Sample(path=_of_orders, body=lambda _: {"name": "", "copyDatasources": True}),
    "deleteFlow": Sample(path=_of_orders),
    "runFlow": Sample(path=of(Flow), body=lambda _: {}),
    "listFlowsLibrary": Sample(query={"includeCount": "true"}),
    "countFlowsLibrary": Sample(),
    "getFlowInputs": Sample(path=_of_orders),
    "getFlowOutputs": Sample(path=_of_orders),
    "getFlowsForFolder": Sample(path=of(Folder)),
    "getFlowCountForFolder": Sample(path=of(Folder)),
    "replaceDatasetInFlow": Sample(
        path=_of_orders,
        body=lambda living: {
            "flowNodeId": living.newest(DatasetNode).id,
            "newImportedDatasetId": living.newest(ImportedDataset).id,
        },
    ),
    "commitEdges": Sample(path=lambda living: (living.things.totals.id,), body=_edge),
    "createFlowNotificationSettings": Sample(
        body=lambda living: {
            "flowId": living.things.orders.id,
            "onJobFailure": "all",
            "onJobSuccess": "never",
        }
    ),
    "shareFlow": Sample(
        path=_of_orders,
        body=lambda living: {
            "data": [{"personId": living.things.colleague.id, "role": "readOnly"}]
        },
    ),
    "createFlowRunParameterOverride": Sample(
        body=lambda living: {
            "flowId": living.things.orders.id,
            "overrideKey": "day",
            "value": "8",
        }
    ),
    "getFlowRunParameterOverride": Sample(path=of(FlowRunParameterOverride)),
    "patchFlowRunParameterOverride": Sample(
        path=of(FlowRunParameterOverride), body=lambda _: {"value": "south"}
    ),
    "deleteFlowRunParameterOverride": Sample(path=of(FlowRunParameterOverride)),
    "createFolder": Sample(body=lambda _: {"name": "Finance"}),
    "listFolders": Sample(query={"includeCount": "true"}),
    "countFolders": Sample(),
    "getFolder": Sample(path=of(Folder)),
    "patchFolder": Sample(path=of(Folder), body=lambda _: {"name": "Old sales"}),
    "deleteFolder": Sample(path=of(Folder)),
}
