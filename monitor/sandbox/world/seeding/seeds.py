"""The seed of a world, read from the file beside this one."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.triggers import ScheduleTrigger


class SeededFlow(Struct, frozen=True, kw_only=True):
    """A flow: its recipes, each with the places of those that it builds upon."""

    name: str
    failure_ratio: float  # of its job groups
    recipes: tuple[tuple[str, tuple[int, ...]], ...]


class SeededPlan(Struct, frozen=True, kw_only=True):
    """A plan: the flows of its nodes by their places, and the edges between nodes with their rule.

    A node without a flow sends a request.
    """

    name: str
    flows: tuple[int | None, ...]
    edges: tuple[tuple[int, int, str], ...]


class SeededSchedule(Struct, frozen=True, kw_only=True):
    """A schedule, and the flow or plan that it starts, by its place."""

    name: str
    starts: tuple[str, int]
    trigger: ScheduleTrigger
    is_enabled: bool = True
    is_of_a_colleague: bool = False


class SeededFolder(Struct, frozen=True, kw_only=True):
    """A folder, and the words with which the names of its flows begin."""

    name: str
    description: str
    beginnings: tuple[str, ...]


class SeededFunction(Struct, frozen=True, kw_only=True):
    """A function, and how many recipes use it."""

    name: str
    description: str
    input_types: tuple[str, ...]
    output_type: str
    users: int


class Seeds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it. Rows are fields of records; places count from 0.

    Two flows have one name, as happens where people copy them.
    """

    people: tuple[str, ...]
    connections: tuple[dict[str, Any], ...]
    files: tuple[str, ...]
    flows: tuple[SeededFlow, ...]
    plans: tuple[SeededPlan, ...]
    schedules: tuple[SeededSchedule, ...]
    folders: tuple[SeededFolder, ...]
    functions: tuple[SeededFunction, ...]
    environment_parameters: tuple[dict[str, Any], ...]
    macros: tuple[dict[str, Any], ...]


@functools.cache
def seeds() -> Seeds:
    """Return what the file says."""
    content = resources.files(__package__).joinpath("seed.json").read_bytes()
    return msgspec.json.decode(content, type=Seeds)
