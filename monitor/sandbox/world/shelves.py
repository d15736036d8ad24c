"""All that exists in the sandbox, by id, and the clock by which it lives."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any, Generic, TypeVar, cast

from monitor.model.clock import Clock
from monitor.sandbox.world.faults import WorldOptions
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    OutputObject,
    Person,
    Plan,
    PlanEdge,
    PlanNode,
    PlanSnapshot,
    Publication,
    Recipe,
    Record,
    Schedule,
    ScheduleHistory,
    Token,
    WebhookFlowTask,
    WriteSetting,
)
from monitor.sandbox.world.records.runs import FlowRun, Job, JobGroup, PlanSnapshotRun, PlanTaskRun

T = TypeVar("T", bound=Record)

WORKSPACE_ID = 1


class Ids:
    """Counts up. Kinds that share one never have the same id."""

    def __init__(self, first: int) -> None:
        self.upcoming = first

    def take(self) -> int:
        self.upcoming += 1
        return self.upcoming - 1


class Shelf(Generic[T]):
    """The things of one kind, in the order of their ids. Deleted ones stay, marked."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self._things: dict[int, T] = {}
        # Attribute -> its value -> the things that have it, by id. Made on first use.
        self._by_value: dict[str, defaultdict[object, dict[int, T]]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[T]:
        """Go over all, deleted ones too, oldest first. Safe against additions on the way."""
        return iter(list(self._things.values()))

    def newest(self) -> Iterator[T]:
        """Go over all, deleted ones too, newest first. Nothing may be added on the way."""
        return reversed(self._things.values())

    def live(self) -> Iterator[T]:
        """Go over those that are not deleted, oldest first."""
        return (thing for thing in self if thing.deleted_at is None)

    def get(self, thing_id: int, *, with_deleted: bool = False) -> T | None:
        """Return the thing; None where it never was, was forgotten, or is deleted."""
        thing = self._things.get(thing_id)
        if thing is None or (thing.deleted_at is not None and not with_deleted):
            return None
        return thing

    def new_id(self) -> int:
        return self.ids.take()

    def having(self, attribute: str, value: object) -> list[T]:
        """Return the live things whose attribute has that value, oldest first."""
        if attribute not in self._by_value:
            self._by_value[attribute] = defaultdict(dict)
            for thing in self._things.values():
                self._by_value[attribute][getattr(thing, attribute)][thing.id] = thing
        found = self._by_value[attribute].get(value, {})
        return [found[item] for item in sorted(found) if found[item].deleted_at is None]

    def moved(self, thing: T, attribute: str, before: object) -> None:
        """Handle the change of an attribute from its former value ``before``."""
        by_value = self._by_value.get(attribute)
        if by_value is not None and by_value[before].pop(thing.id, None) is not None:
            by_value[getattr(thing, attribute)][thing.id] = thing

    def put(self, thing: T) -> T:
        self._things[thing.id] = thing
        for attribute, by_value in self._by_value.items():
            by_value[getattr(thing, attribute)][thing.id] = thing
        return thing

    def forget(self, thing_id: int) -> None:
        """Remove every trace of a thing."""
        thing = self._things.pop(thing_id, None)
        if thing is not None:
            for attribute, by_value in self._by_value.items():
                by_value[getattr(thing, attribute)].pop(thing_id, None)

    def show_all_of(self, other: Shelf[T]) -> None:
        """Hold the very things that ``other`` holds now, and count on from where it is."""
        self._things = dict(other._things)
        self._by_value.clear()
        self.ids.upcoming = other.ids.upcoming


class World:
    """The store. One workspace, all of it in memory.

    ``options`` may be changed while it runs: they are the faults and habits of the workspace.
    """

    def __init__(self, *, clock: Clock, seed: int = 1, options: WorldOptions | None = None) -> None:
        self.clock = clock
        self.seed = seed
        self.options = options or WorldOptions()
        self._shelves: dict[type[Record], Shelf[Any]] = {}
        self.people = self.shelf(Person)
        self.tokens = self.shelf(Token)
        self.connections = self.shelf(Connection)
        self.imported_datasets = self.shelf(ImportedDataset)
        self.flows = self.shelf(Flow)
        self.recipes = self.shelf(Recipe)
        self.output_objects = self.shelf(OutputObject)
        self.write_settings = self.shelf(WriteSetting)
        self.publications = self.shelf(Publication)
        self.plans = self.shelf(Plan)
        self.plan_nodes = self.shelf(PlanNode)
        self.plan_edges = self.shelf(PlanEdge)
        self.plan_snapshots = self.shelf(PlanSnapshot)
        self.schedules = self.shelf(Schedule)
        self.schedule_histories = self.shelf(ScheduleHistory)
        self.webhook_tasks = self.shelf(WebhookFlowTask)
        self.plan_runs = self.shelf(PlanSnapshotRun)
        self.plan_task_runs = self.shelf(PlanTaskRun)
        self.flow_runs = self.shelf(FlowRun)
        self.job_groups = self.shelf(JobGroup)
        self.jobs = self.shelf(Job)

    def now(self) -> datetime:
        """Return workspace time: the handed clock's, plus the fault ``clock_offset_seconds``."""
        return self.clock.now() + timedelta(seconds=self.options.clock_offset_seconds)

    def date(self) -> str:
        """Return workspace time as the ``Date`` of a response has it."""
        return format_datetime(self.now(), usegmt=True)

    def shelf(self, kind: type[T]) -> Shelf[T]:
        """Return the shelf of a kind; made at the first asking, with its own or another's ids."""
        if kind not in self._shelves:
            self._shelves[kind] = Shelf(self._ids_of(kind))
        return cast("Shelf[T]", self._shelves[kind])

    def kinds(self) -> tuple[type[Record], ...]:
        """Return the kinds that may have records by now."""
        return tuple(self._shelves)

    def scratch_copy(self) -> World:
        """Return a world with everything of this one, in which things can be made on trial.

        What is made there never is here. What is here is the same there: it must not be changed.
        """
        twin = World(clock=self.clock, seed=self.seed, options=self.options)
        for kind in self.kinds():
            twin.shelf(kind).show_all_of(self.shelf(kind))
        return twin

    def _ids_of(self, kind: type[Record]) -> Ids:
        if kind.counts_with is not None:
            return self.shelf(kind.counts_with).ids
        return Ids(kind.first_id)

    def random(self, *names: object) -> Random:
        """Return a generator that depends on the seed and the names, and on nothing else."""
        return Random(":".join(str(name) for name in (self.seed, *names)))

    def struck(self, fault: str, *about: object) -> Random | None:
        """Return further draws about what a fault of the options strikes; None where it does not.

        The same thing is struck each time, by the seed alone. Without the fault nothing is drawn.
        """
        ratio: float = getattr(self.options, fault)
        chance = self.random("fault", fault, *about) if ratio > 0 else None
        return chance if chance is not None and chance.random() < ratio else None

    def uuid(self, *names: object) -> str:
        """Return a UUID that depends on the seed and the names, and on nothing else."""
        return str(uuid.UUID(int=self.random(*names).getrandbits(128), version=4))

    def create(self, kind: type[T], *, by: int, **values: Any) -> T:
        """Make a thing in the name of person ``by``, with the next id and present stamps.

        ``values`` are the fields of ``kind``; ``created_at`` may be among them.

        Raises:
            TypeError: ``values`` lacks a field or names one that ``kind`` does not have.
        """
        shelf = self.shelf(kind)
        created_at = values.pop("created_at", None) or self.now()
        return shelf.put(
            kind(
                id=shelf.new_id(),
                created_at=created_at,
                updated_at=created_at,
                creator_id=by,
                updater_id=by,
                **values,
            )
        )

    def update(self, thing: Record, *, by: int | None = None, **values: Any) -> None:
        """Overwrite fields of a thing and move its ``updated_at``; no values only touch it.

        Raises:
            TypeError: a name is not a field of the thing.
        """
        unknown = values.keys() - {field.name for field in fields(thing)}
        if unknown:
            raise TypeError(f"{type(thing).__name__} has no {', '.join(sorted(unknown))}")
        shelf = self.shelf(type(thing))
        for name, value in values.items():
            before = getattr(thing, name)
            setattr(thing, name, value)
            shelf.moved(thing, name, before)
        thing.updated_at = self.now()
        if by is not None:
            thing.updater_id = by

    def delete(self, thing: Record) -> None:
        """Mark a thing as deleted. For runs use `Engine.delete_run`, which also ends them."""
        thing.deleted_at = thing.updated_at = self.now()

    def person_of(self, token_value: str) -> Person | None:
        """Return whose token this is; None if there is none, or it is expired or deleted."""
        for token in self.tokens.having("value", token_value):
            if token.expires_at is not None and token.expires_at <= self.now():
                return None
            token.last_used_at = self.now()
            return self.people.get(token.creator_id)
        return None

    def is_shared_with(self, thing: Flow | Plan, person_id: int) -> bool:
        """True where a person sees a thing of another owner."""
        person = self.people.get(person_id)
        is_admin = person is not None and person.is_admin
        return thing.creator_id != person_id and (is_admin or person_id in thing.shared_with)

    def recipes_of(self, flow_id: int) -> list[Recipe]:
        return self.recipes.having("flow_id", flow_id)

    def outputs_of(self, recipe_id: int) -> list[OutputObject]:
        return self.output_objects.having("recipe_id", recipe_id)

    def recipe_ids_with_outputs(self) -> set[int]:
        """Return all that could run, in one pass over the outputs."""
        return {output_object_.recipe_id for output_object_ in self.output_objects.live()}

    def write_settings_of(self, output_object_id: int) -> list[WriteSetting]:
        return self.write_settings.having("output_object_id", output_object_id)

    def publications_of(self, output_object_id: int) -> list[Publication]:
        return self.publications.having("output_object_id", output_object_id)

    def nodes_of(self, plan_id: int) -> list[PlanNode]:
        return self.plan_nodes.having("plan_id", plan_id)

    def edges_of(self, plan_id: int) -> list[PlanEdge]:
        return self.plan_edges.having("plan_id", plan_id)

    def webhook_tasks_of(self, flow_id: int) -> list[WebhookFlowTask]:
        return self.webhook_tasks.having("flow_id", flow_id)

    def schedules_of(self, *, kind: str, target_id: int) -> list[Schedule]:
        """Return the schedules that start a flow or plan; ``kind`` is ``flow`` or ``plan``."""
        return [
            schedule
            for schedule in self.schedules.live()
            if any(task.kind == kind and task.target_id == target_id for task in schedule.tasks)
        ]

    def plan_runs_of(self, plan_id: int) -> list[PlanSnapshotRun]:
        """Return the runs of a plan over all its snapshots, oldest first."""
        return self.plan_runs.having("plan_id", plan_id)

    def snapshots_of(self, plan_id: int) -> list[PlanSnapshot]:
        return self.plan_snapshots.having("original_plan_id", plan_id)

    def plan_id_shown(self, run: PlanSnapshotRun) -> int:
        """Return the id that a plan run shows as its plan: its snapshot, or by option the plan."""
        return run.plan_id if self.options.plan_runs_name_plans else run.snapshot_id

    def jobs_of(self, job_group: JobGroup) -> list[Job]:
        """Return the jobs in the order of work."""
        return [job for job_id_ in job_group.job_ids if (job := self.jobs.get(job_id_)) is not None]

    def job_groups_of(self, flow_run: FlowRun) -> list[JobGroup]:
        """Return the job groups of a flow run that have appeared so far."""
        found = [self.job_groups.get(id_) for id_ in flow_run.job_group_ids]
        return [id_ for id_ in found if id_ is not None]

    def task_runs_of(self, plan_run_id: int) -> list[PlanTaskRun]:
        return self.plan_task_runs.having("plan_run_id", plan_run_id)
