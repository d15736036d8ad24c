"""Folders for the flows, and what somebody said about their runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from monitor.sandbox.records.flows import FlowNotificationSettings, FlowRunParameterOverride, Folder
from monitor.sandbox.records.objects import Flow
from monitor.sandbox.world import World

# Name, what is in it, and the words with which the names of its flows begin.
_FOLDERS = (
    ("Sales", "Everything that is sold", ("Daily sales", "Customer")),
    ("Operations", "Stock and machines", ("Inventory", "Sensor")),
)


def seed_folders(world: World, flows: Sequence[Flow], *, by: int) -> None:
    """Make folders in the name of person ``by``, and put flows into them.

    Draws nothing, so that what else the seed makes stays as it is.
    """
    created_at = world.now() - timedelta(days=365)
    for name, description, beginnings in _FOLDERS:
        folder = world.create(
            Folder, by=by, created_at=created_at, name=name, description=description
        )
        for flow in flows:
            if flow.name.startswith(beginnings):
                flow.folder_id = folder.id


def seed_parameters(world: World, flow: Flow) -> None:
    """Let the flow's runs have a parameter, and its people be notified of those that fail."""
    created_at = flow.created_at
    world.create(
        FlowRunParameterOverride,
        by=flow.creator_id,
        created_at=created_at,
        flow_id=flow.id,
        override_key="region",
        value="north",
    )
    world.create(
        FlowNotificationSettings,
        by=flow.creator_id,
        created_at=created_at,
        flow_id=flow.id,
        on_job_failure="all",
        on_job_success="never",
    )
