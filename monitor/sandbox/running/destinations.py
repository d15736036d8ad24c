"""With which values a run works, and where it writes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from monitor.sandbox.world.records.objects import (
    OutputObject,
    Publication,
    Recipe,
    Record,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import (
    EnvironmentParameter,
    FlowRunParameterOverride,
    PlanOverride,
    SqlScript,
)
from monitor.sandbox.world.records.runs import Destinations, JobGroup
from monitor.sandbox.world.shelves import World

TEXT_TYPES = ("path", "sql")  # parameters of a bucket, host or user are not part of a path
LONGEST_VALUE = 1_024  # as it stands in a text: longer ones are cut
MOST_INSERTIONS = 100  # in one text
_IN_ENVIRONMENT = re.compile(r"\$env\.([\w-]+)")
Destination = TypeVar("Destination", WriteSetting, Publication, SqlScript)
NO_OUTPUT = 0  # in place of an id, where a run gives a recipe without output its destination


def parameters_of_flow(world: World, flow_id: int) -> dict[str, Any]:
    """Return the values that a flow gives to its parameters, by override key."""
    overrides = world.shelf(FlowRunParameterOverride).having("flow_id", flow_id)
    return {override.override_key: override.value for override in overrides}


def parameters_of_node(world: World, plan_node_id: int) -> dict[str, Any]:
    """Return the values that a plan gives to the parameters of one node, by override key."""
    overrides = world.shelf(PlanOverride).having("plan_node_id", plan_node_id)
    return {override.override_key: override.value for override in overrides}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverrides:
    """What a run of one recipe does otherwise; None leaves it to the recipe's outputs.

    ``write_settings`` are values of `WriteSetting`, in place of those of the outputs;
    ``parameters`` are values by override key.
    """

    execution: str | None = None
    profiler: bool | None = None
    write_settings: tuple[Mapping[str, Any], ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reference_date: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOverrides:
    """What a run of a flow does otherwise: in all its recipes, and in those of some names."""

    everywhere: RunOverrides = field(default_factory=RunOverrides)
    by_recipe_name: Mapping[str, RunOverrides] = field(default_factory=dict)

    def of(self, recipe: Recipe) -> RunOverrides:
        """Return what holds for one recipe; what names it wins."""
        general, own = self.everywhere, self.by_recipe_name.get(recipe.name)
        if own is None:
            return general
        return RunOverrides(
            execution=own.execution or general.execution,
            profiler=general.profiler if own.profiler is None else own.profiler,
            write_settings=own.write_settings,
            parameters={**general.parameters, **own.parameters},
            reference_date=own.reference_date or general.reference_date,
        )


def outputs_to_make(world: World, recipe: Recipe, *, is_scheduled: bool) -> list[OutputObject]:
    """Return the outputs of a recipe for scheduled or manual runs; where there are none, all."""
    outputs = world.outputs_of(recipe.id)
    return [output for output in outputs if output.is_adhoc is not is_scheduled] or outputs


class Destinator:
    """Gives every new run its destinations; equal ones are one object for all runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[tuple[type[Record], int], Record] = {}

    def destinations(
        self, job_group: JobGroup, outputs: Sequence[OutputObject], overrides: RunOverrides
    ) -> Destinations:
        """Return where the results go by the present outputs, parameters put in."""
        world = self._world
        settings = [
            write_setting
            for output in outputs
            for write_setting in world.write_settings_of(output.id)
        ]
        if overrides.write_settings is not None:
            settings = [
                self._own_setting(job_group, outputs, values) for values in overrides.write_settings
            ]
        publications = [
            publication for output in outputs for publication in world.publications_of(output.id)
        ]
        ids = {output.id for output in outputs}
        scripts = [
            sql_script
            for sql_script in world.shelf(SqlScript).live()
            if sql_script.output_object_id in ids
        ]
        return Destinations(
            write_settings=tuple(self._put_in(setting, "path", job_group) for setting in settings),
            publications=tuple(
                self._put_in(publication, "table_name", job_group) for publication in publications
            ),
            sql_scripts=tuple(self._put_in(script, "sql_script", job_group) for script in scripts),
        )

    def _own_setting(
        self, job_group: JobGroup, outputs: Sequence[OutputObject], values: Mapping[str, Any]
    ) -> WriteSetting:
        """Return a write setting of this run alone: it has an id, and is in no list."""
        return WriteSetting(
            id=self._world.write_settings.new_id(),
            created_at=job_group.created_at,
            updated_at=job_group.created_at,
            creator_id=job_group.creator_id,
            updater_id=job_group.creator_id,
            output_object_id=outputs[0].id if outputs else NO_OUTPUT,
            **values,
        )

    def _put_in(self, destination: Destination, attribute: str, job_group: JobGroup) -> Destination:
        """Return a copy that later edits do not reach, with the run's parameters in a text."""
        copy = dataclasses.replace(destination)
        text = inserted(getattr(destination, attribute), destination.run_parameters, job_group)
        setattr(copy, attribute, with_environment(self._world, text, job_group))
        if self._world.shelf(type(destination)).get(destination.id) is not destination:
            return copy  # of this run alone
        key = (type(destination), destination.id)
        kept = self._kept.get(key)
        if isinstance(kept, type(destination)) and kept == copy:
            return kept
        self._kept[key] = copy
        return copy
