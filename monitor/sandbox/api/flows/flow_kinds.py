"""Flows and folders as data."""

from __future__ import annotations

from monitor.sandbox.api.flows.flow_shapes import FLOW_RESOURCES
from monitor.sandbox.api.response.kinds import Association, Kind, OnDelete, Reference, Visibility
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.parts import Folder
from monitor.sandbox.world.shelves import WORKSPACE_ID

FOLDER: Kind[Folder] = Kind(
    record=Folder,
    name="folder",
    plural="folders",
    model="Folder",
    requests=("FolderCreateRequest", "FolderUpdateRequest"),
    constants={"workspace": {"id": WORKSPACE_ID}},
    associations={
        "flows": Association(
            key="flows",
            target="flows",
            find=lambda view, record: [
                flow
                for flow in view.world.flows.live()
                if flow.folder_id == record.id and view.may_see(flow)
            ],
            many=True,
        )
    },
)

FLOW: Kind[Flow] = Kind(
    record=Flow,
    name="flow",
    plural="flows",
    model="Flow",
    requests=("FlowCreateRequest", "FlowUpdateRequest"),
    references=(
        Reference(
            attribute="folder_id",
            target=Folder,
            shown="folder",
            sent="folderId",
            on_delete=OnDelete.CLEAR,
        ),
    ),
    visibility=Visibility.HOME,
    unkept=frozenset({"incrementName"}),
    resource=FLOW_RESOURCES["flows"],
)
