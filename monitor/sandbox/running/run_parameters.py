"""The values that run parameters have: a flow's own, those of a plan's node, those of one run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor.sandbox.world.records.parts import (
    EnvironmentParameter,
    FlowRunParameterOverride,
    PlanOverride,
)
from monitor.sandbox.world.records.runs import JobGroup
from monitor.sandbox.world.shelves import World

TEXT_TYPES = ("path", "sql")  # parameters of a bucket, host or user are not part of a path
LONGEST_VALUE = 1_024  # as it stands in a text: longer ones are cut
MOST_INSERTIONS = 100  # in one text
_IN_ENVIRONMENT = re.compile(r"\$env\.([\w-]+)")


def parameters_of_flow(world: World, flow_id: int) -> dict[str, Any]:
    """Return the values that a flow gives to its parameters, by override key."""
    overrides = world.shelf(FlowRunParameterOverride).live()
    return {
        override.override_key: override.value
        for override in overrides
        if override.flow_id == flow_id
    }


def parameters_of_node(world: World, plan_node_id: int) -> dict[str, Any]:
    """Return the values that a plan gives to the parameters of one node, by override key."""
    overrides = world.shelf(PlanOverride).live()
    return {
        override.override_key: override.value
        for override in overrides
        if override.plan_node_id == plan_node_id
    }


def inserted(text: str, parameters: Sequence[Mapping[str, Any]], job_group: JobGroup) -> str:
    """Return a text with the values of its parameters at the positions that these name."""
    positions: list[tuple[int, int, str]] = []
    for parameter in parameters:
        if parameter.get("type", "path") in TEXT_TYPES:
            value = job_group.parameters.get(key_of(parameter), parameter.get("value", ""))
            shown = text_of(value, job_group)[:LONGEST_VALUE]
            positions.extend((index, order, shown) for index, order in _positions_of(parameter))
    pieces: list[str] = []
    end = 0
    for index, _, shown in sorted(positions[:MOST_INSERTIONS]):
        pieces.extend((text[end:index], shown))
        end = index
    return "".join([*pieces, text[end:]])


def key_of(parameter: Mapping[str, Any]) -> str:
    """Return by which key a parameter is overridden, an empty text for one that is not."""
    key = parameter.get("overrideKey")
    return key if isinstance(key, str) else ""


def _positions_of(parameter: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Find where a parameter stands. One that came in a package may be of any form."""
    positions = parameter.get("insertionIndices")
    for place in positions if isinstance(positions, list) else ():
        if isinstance(place, dict):
            index, order = place.get("index", 0), place.get("order", 0)
            if isinstance(index, int) and isinstance(order, int):
                yield max(0, index), order


def with_environment(world: World, text: str, job_group: JobGroup) -> str:
    """Return a text with the workspace's values in place of ``$env.key``; secrets stay hidden."""
    if "$env." not in text:
        return text
    values = {
        environment_parameter.override_key: text_of(environment_parameter.value, job_group)[
            :LONGEST_VALUE
        ]
        for environment_parameter in world.shelf(EnvironmentParameter).live()
        if not environment_parameter.is_secret
    }
    return _IN_ENVIRONMENT.sub(
        lambda match: values.get(match.group(1), match.group()), text, count=MOST_INSERTIONS
    )


def text_of(value: Any, job_group: JobGroup) -> str:
    """Return a parameter's value as it stands in a path; a date is the run's reference date."""
    if isinstance(value, dict):
        if isinstance(variable := value.get("variable"), dict):
            return text_of(variable.get("value", ""), job_group)
        if value.keys() & {"timestamp", "dateRange"}:
            return f"{job_group.reference_date or job_group.created_at:%Y-%m-%d}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
