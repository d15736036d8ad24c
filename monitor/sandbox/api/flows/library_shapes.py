"""The rows of the library of flows: flows and folders, all with the same fields."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.flows.flow_kinds import FOLDER
from monitor.sandbox.api.flows.flow_shapes import FLOW_RESOURCES, flow
from monitor.sandbox.api.response.kinds import Association, Resource, View
from monitor.sandbox.api.response.rendering import NAMED, reference, stamp, stamps
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.parts import Folder
from monitor.sandbox.world.shelves import WORKSPACE_ID

_FLOW = FLOW_RESOURCES["flows"]


def library_row(view: View, other_flow: Flow | Folder) -> dict[str, Json]:
    """Return a flow or a folder, and which of them it is; a folder lacks what only flows have."""
    if isinstance(other_flow, Flow):
        return {**flow(view, other_flow), "type": "flow"}
    return {
        **stamps(other_flow),
        "name": other_flow.name,
        "description": other_flow.description,
        "folder": None,
        "defaultOutputDir": None,
        "settings": None,
        "flowState": None,
        "workspace": reference(WORKSPACE_ID),
        "cpProject": None,
        "deleted_at": stamp(other_flow.deleted_at),
        "type": "folder",
    }


def _of(kind: type[Flow | Folder], association: Association) -> Association:
    """Return an association that only rows of one kind have something for."""

    def find(view: View, record: Any) -> Any:
        if isinstance(record, kind):
            return association.find(view, record)
        return () if association.many else None

    return Association(
        key=association.key, target=association.target, find=find, many=association.many
    )


LIBRARY_ROWS = Resource(
    plural="flowslibrary",
    render=library_row,
    columns={
        **NAMED,
        "description": lambda _, record: record.description,
        "type": lambda _, record: "flow" if isinstance(record, Flow) else "folder",
    },
    associations={
        **{
            name: _of(Folder, other_association)
            for name, other_association in FOLDER.associations.items()
        },
        **{
            name: _of(Flow, other_association)
            for name, other_association in _FLOW.associations.items()
        },
        **{name: _FLOW.associations[name] for name in ("creator", "updater")},
    },
)
