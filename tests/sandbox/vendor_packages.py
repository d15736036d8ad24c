"""Small flow packages in the vendor's two formats, as public examples have them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from tests.sandbox.packages import zipped

METADATA = {
    "trifactaVersion": "8.6.0+66",
    "exportedAt": "2021-08-19T12:43:26.728Z",
    "exportedBy": 6702,
    "uuid": "0c6ac080-00eb-11ec-874e-e19f319844ba",
    "comment": "",
    "primaryFlowIds": [7],
    "edition": "Dataprep",
}
STEP = {"id": 91, "task": {"kind": "task", "type": "SplitRows"}, "hash": "bef1"}
SETTING = {
    "id": 51,
    "path": "gs://out/orders.csv",
    "format": "csv",
    "action": "create",
    "suffix": "_increment",
    "prefix": None,
    "runParameters": [],
}


def _node(node_id: int, script_id: int | None, **values: Any) -> dict[str, Any]:
    row = {"id": node_id, "scriptId": script_id, "flowNodeId": None, "wrangled": False}
    return {**row, "referenceId": None, **values}


def _edge(edge_id: int, begin: int, end: int, port: int | None) -> dict[str, Any]:
    ends = {"inFlowNodeId": begin, "outFlowNodeId": end}
    return {"id": edge_id, **ends, "inPortId": None, "outPortId": port}


def _script(script_id: int, name: str) -> dict[str, Any]:
    return {"id": script_id, "name": name, "description": None, "active": True, "nextPortId": 2}


PARAMETER: dict[str, Any] = {
    "id": 61,
    "type": "path",
    "runParameterEdit": {
        "id": 62,
        "overrideKey": "region",
        "value": {"variable": {"value": "north"}},
        "insertionIndices": [{"index": 1, "order": 0}],
    },
}
SOURCES: list[dict[str, Any]] = [
    {
        "id": 31,
        "parsingScriptId": 21,
        "type": "gs",
        "bucket": "in",
        "path": "/orders.csv",
        "isDynamic": True,
        "dynamicPath": "/orders.csv",
        "storageLocation": {"id": 71, "size": 219},
        "runParameters": [PARAMETER],
    },
    {
        "id": 32,
        "parsingScriptId": 22,
        "type": "jdbc",
        "connectionId": 81,
        "relationalsource": {
            "id": 72,
            "relationalPath": ["public"],
            "tableName": "prices",
            "columns": ["a"],
            "raw": None,
        },
        "runParameters": [],
    },
]
CONNECTION = {
    "id": 81,
    "name": "warehouse",
    "type": "jdbc",
    "vendor": "postgres",
    "uuid": "197e83f0-3fab-11e9-a11e-4f3936ff407e",
    "credentialType": "basic",
    "isGlobal": True,
}
OUTPUT: dict[str, Any] = {
    "id": 41,
    "flowNodeId": 13,
    "execution": "photon",
    "profiler": True,
    "isAdhoc": True,
    "writesettings": [SETTING],
    "publications": [
        {
            "id": 52,
            "path": ["public"],
            "tableName": "t",
            "targetType": "postgres",
            "action": "createAndLoad",
            "connectionId": 81,
            "runParameters": [],
        }
    ],
    "outputobjectdataflowoptions": [{"id": 53, "key": "machineType", "value": "n1"}],
}


def newer(**flow: Any) -> dict[str, Any]:
    """Return a document of 2020: two datasets, a recipe that joins them, and one upon it."""
    nodes = [
        _node(11, 21),
        _node(12, 22),
        _node(13, 23, wrangled=True, referenceId=92),
        _node(14, 24, wrangled=True),
    ]
    made = {
        "id": 7,
        "name": "Orders / all",
        "description": "from elsewhere",
        "settings": {"optimize": "default"},
        "fromExampleFlowHash": None,
        "notes": [{"id": 95, "content": "read me"}],
        "flownodes": nodes,
        # The edge of the primary input has no port, wherever it stands.
        "flowedges": [_edge(1, 12, 13, 2), _edge(2, 11, 13, None), _edge(3, 13, 14, None)],
        "recipes": [
            {**_script(21, "orders.csv"), "steps": [STEP]},
            {**_script(22, "prices"), "steps": []},
            {**_script(23, "Join"), "steps": [STEP]},
            {**_script(24, "Upon it"), "steps": []},
        ],
        "datasources": SOURCES,
        "outputobjects": [OUTPUT],
        "webhookflowtasks": [
            {
                "id": 55,
                "name": "hook",
                "url": "http://127.0.0.1:1",
                "method": "post",
                "triggerEvent": "onJobDone",
                "triggerObject": "some",
                "secretKey": "",
                "headers": {"a": "b"},
                "flownodes": [{"id": 13}],
            }
        ],
        "flowrunparameteroverrides": [
            {"id": 56, "overrideKey": "region", "value": {"variable": {"value": "south"}}}
        ],
        **flow,
    }
    data = {
        "artifacts": [{"id": 96, "type": "targetmapping"}],
        "connections": [CONNECTION],
        "flows": [made],
    }
    document = {"type": "flow", "kind": "artifact", "metadata": METADATA, "data": data}
    return copy.deepcopy({**document, "hash": "fAMSa20T7WjN2sBmul8KvgO2B9245Xo8"})


def _ids(source: dict[str, Any]) -> dict[str, Any]:
    return {"id": source["id"], "parsingScriptId": source["parsingScriptId"]}


def older() -> dict[str, Any]:
    """Return what `newer` is, as it was written in 2019: a table for each kind of row."""
    (flow,) = newer()["data"]["flows"]
    stamps = {"createdAt": "2019-05-25T16:50:54.396Z", "createdBy": 1, "deleted_at": None}
    home = {"flowId": 7, **stamps}
    output = flow["outputobjects"][0]
    gone = _edge(4, 14, 13, None)
    dynamic = {"isDynamic": True, "dynamicPath": "/orders.csv"}
    tables: dict[str, list[dict[str, Any]]] = {
        "flows": [{"id": 7, "name": flow["name"], "description": "from elsewhere", **stamps}],
        "flownodes": [{**node, **home, "activesampleId": 3} for node in flow["flownodes"]],
        "flowedges": [
            *({**edge, **home} for edge in flow["flowedges"]),
            {**gone, **home, "deleted_at": stamps["createdAt"]},
        ],
        "editablescripts": [
            {**_script(row["id"], row["name"]), **stamps, "currentEditId": row["id"] + 100}
            for row in flow["recipes"]
        ],
        "edits": [
            {"id": row["id"] + 100, "editablescriptId": row["id"]} for row in flow["recipes"]
        ],
        "editsscriptlines": [
            {"editId": row["id"] + 100, "scriptlineId": 91, "index": 0}
            for row in flow["recipes"]
            if row["steps"]
        ],
        "scriptlines": [{**STEP, **stamps}],
        "datasources": [
            {**_ids(SOURCES[0]), **stamps, **dynamic, "storageLocationId": 71},
            {**_ids(SOURCES[1]), **stamps, "connectionId": 81},
        ],
        "storagelocations": [{"id": 71, "type": "gs", "bucket": "in", "path": "/orders.csv"}],
        "relationalsources": [{**SOURCES[1]["relationalsource"], "datasourceId": 32}],
        "runparameters": [{"id": 61, "type": "path", "datasourceId": 31, "value": None}],
        "runparameteredits": [{**PARAMETER["runParameterEdit"], "runParameterId": 61}],
        "outputobjects": [{key: output[key] for key in output if not key.endswith("s")}],
        "writesettings": [{**SETTING, "outputObjectId": 41}],
        "publications": [{**output["publications"][0], "outputObjectId": 41}],
        "outputobjectdataflowoptions": [
            {**output["outputobjectdataflowoptions"][0], "outputObjectId": 41}
        ],
        "flowrunparameteroverrides": [{**flow["flowrunparameteroverrides"][0], **home}],
        "webhookflowtasks": [{**flow["webhookflowtasks"][0], **home}],
        "connections": [{key: CONNECTION[key] for key in CONNECTION if key != "vendor"}],
        "referenceinfos": [],
    }
    return copy.deepcopy({"metadata": METADATA, "data": tables})


def archived(document: Any, *, files: Mapping[str, bytes] | None = None) -> bytes:
    return zipped({"flow_Orders.json": json.dumps(document).encode(), **(files or {})})
