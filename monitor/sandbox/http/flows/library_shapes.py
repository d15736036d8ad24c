"""The rows of the library of flows: flows and folders, all with the same fields."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.flows.flow_kinds import FOLDER
from monitor.sandbox.http.flows.flow_shapes import FLOW_RESOURCES, flow
from monitor.sandbox.http.kinds.shapes import NAMED, stamps
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.records.flows import Folder
from monitor.sandbox.records.objects import Flow
from monitor.sandbox.world import WORKSPACE_ID

_FLOW = FLOW_RESOURCES["flows"]


def library_row(view: View, one: Flow | Folder) -> dict[str, Json]:
    """Return a flow or a folder, and which of them it is; a folder lacks what only flows have."""
    if isinstance(one, Flow):
        return {**flow(view, one), "type": "flow"}
    return {
        **stamps(one),
        "name": one.name,
        "description": one.description,
        "folder": None,
        "defaultOutputDir": None,
        "settings": None,
        "flowState": None,
        "workspace": reference(WORKSPACE_ID),
        "cpProject": None,
        "deleted_at": stamp(one.deleted_at),
        "type": "folder",
    }


def _of(kind: type[Flow | Folder], association: Association) -> Association:
    """Return an association that only rows of one kind have something for."""

    def find(view: View, one: Any) -> Any:
        if isinstance(one, kind):
            return association.find(view, one)
        return () if association.many else None

    return Association(
        key=association.key, target=association.target, find=find, many=association.many
    )


LIBRARY_ROWS = Resource(
    plural="flowslibrary",
    render=library_row,
    columns={
        **NAMED,
        "description": lambda _, one: one.description,
        "type": lambda _, one: "flow" if isinstance(one, Flow) else "folder",
    },
    associations={
        **{name: _of(Folder, one) for name, one in FOLDER.associations.items()},
        **{name: _of(Flow, one) for name, one in _FLOW.associations.items()},
        **{name: _FLOW.associations[name] for name in ("creator", "updater")},
    },
)
