"""Folders."""

from __future__ import annotations

from monitor.sandbox.api.calls import Handlers
from monitor.sandbox.api.crud.handlers import crud
from monitor.sandbox.api.flows.flow_kinds import FOLDER

HANDLERS: Handlers = crud(
    FOLDER,
    create="createFolder",
    listed="listFolders",
    counted="countFolders",
    read="getFolder",
    changed=("patchFolder",),
    deleted="deleteFolder",
)
