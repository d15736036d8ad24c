"""Where the results of one run go: what its outputs say, and what the run says otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from monitor.sandbox.running.run_parameters import inserted, with_environment
from monitor.sandbox.world.records.objects import (
    OutputObject,
    Publication,
    Recipe,
    Record,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import SqlScript
from monitor.sandbox.world.records.runs import Destinations, JobGroup
from monitor.sandbox.world.shelves import World

Destination = TypeVar("Destination", WriteSetting, Publication, SqlScript)

NO_OUTPUT = 0  # in place of an id, where a run gives a recipe without output its destination


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
