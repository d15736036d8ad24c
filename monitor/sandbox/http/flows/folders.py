"""Folders."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.crud.handlers import crud
from monitor.sandbox.http.flows.flow_kinds import FOLDER

HANDLERS: Handlers = crud(
    FOLDER,
    create="createFolder",
    listed="listFolders",
    counted="countFolders",
    read="getFolder",
    changed=("patchFolder",),
    deleted="deleteFolder",
)
