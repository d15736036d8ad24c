"""What must exist in a workspace after a row of requests, kept beside it as simply as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from monitor.catalogue.operations import find
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    OutputObject,
    Plan,
    Publication,
    Recipe,
    Record,
    Schedule,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import EnvironmentParameter, Folder, SqlScript

Json = Any


@dataclass(eq=False, kw_only=True)
class Thing:
    """Something that was made. ``parent`` is what it is part of, ``uses`` what it holds."""

    kind: type[Record]
    id: int
    owner: int
    parent: Thing | None = None
    uses: set[Thing] = field(default_factory=set)
    shared_with: set[int] = field(default_factory=set)
    read_only: set[int] = field(default_factory=set)  # some of those with whom it is shared
    folder: Thing | None = None  # of a flow
    is_deleted: bool = False

    @property
    def home(self) -> Thing:
        """The flow or plan that this is part of, or itself."""
        return self if self.parent is None else self.parent.home


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a kind is requested. ``make`` gives the body of a new one from its parent and inputs."""

    path: str
    make: Callable[[str, Thing | None, Mapping[type[Record], Thing]], Json]
    parent: type[Record] | None = None
    parent_attribute: str = ""
    needs: tuple[type[Record], ...] = ()
    listed: str = ""  # where it is listed, if not under its path
    widened: Mapping[str, str] = field(default_factory=dict)  # shows all that one sees
    is_counted: bool = True
    is_for_everybody: bool = False
    change: str = "PATCH"  # the method; empty where nothing changes it
    changed_field: str = "name"
    read: str = ""  # what follows the id in the path that reads it
    counted_as: str = ""  # the key, where the count is an object

    @property
    def list_path(self) -> str:
        return self.listed or self.path

    @property
    def shows_deleted(self) -> bool:
        """True where reading has ``includeDeleted``."""
        match = find("GET", f"{self.path}/1{self.read}")
        return match is not None and "includeDeleted" in match[0].query

    def count_in(self, body: Json) -> int:
        """Return how many an answer counts."""
        count = body["count"]
        return int(count[self.counted_as] if self.counted_as else count)


def _named(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del parent, inputs
    return {"name": name}


def _connection(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del parent, inputs
    words = {"vendor": "postgres", "vendorName": "PostgreSQL", "type": "jdbc"}
    return {**words, "credentialType": "basic", "name": name, "params": {"database": "d"}}


def _parameter(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del parent, inputs
    value = {"variable": {"value": "eu"}}
    return {"overrideKey": name, "value": value}


def _dataset(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del parent, inputs
    return {"name": name, "uri": f"gs://in/{name}.csv"}


def _recipe(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    assert parent is not None
    source = {"id": inputs[ImportedDataset].id}
    return {"name": name, "flow": {"id": parent.id}, "importedDataset": source}


def _output(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del inputs
    assert parent is not None
    return {"name": name, "execution": "photon", "profiler": False, "flowNodeId": parent.id}


def _setting(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del inputs
    assert parent is not None
    words = {"path": f"gs://out/{name}", "action": "create", "format": "csv"}
    return {**words, "outputObjectId": parent.id}


def _publication(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    assert parent is not None
    words = {"path": ["public"], "tableName": name, "targetType": "postgres", "action": "create"}
    return {**words, "outputObjectId": parent.id, "connectionId": inputs[Connection].id}


def _script(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    assert parent is not None
    words = {"sqlScript": f"SELECT '{name}'", "type": "post", "vendor": "postgres"}
    return {**words, "outputObjectId": parent.id, "connectionId": inputs[Connection].id}


def _schedule(name: str, parent: Thing | None, inputs: Mapping[type[Record], Thing]) -> Json:
    del parent
    hourly = {"timeBased": {"hourly": {"minuteOfHour": 5}, "timezone": "UTC"}}
    tasks = [{"runFlow": {"flowId": inputs[Flow].id}}]
    return {"name": name, "triggers": [hourly], "tasks": tasks}


SHAPES: dict[type[Record], Shape] = {
    Folder: Shape(path="/v4/folders", make=_named),
    Connection: Shape(path="/v4/connections", make=_connection, change=""),
    EnvironmentParameter: Shape(
        path="/v4/environmentParameters",
        make=_parameter,
        change="",
        is_counted=False,
        is_for_everybody=True,
    ),
    ImportedDataset: Shape(
        path="/v4/importedDatasets",
        make=_dataset,
        listed="/v4/datasetLibrary",
        widened={"datasetsFilter": "imported", "ownershipFilter": "all"},
        counted_as="imported",
    ),
    Flow: Shape(path="/v4/flows", make=_named, widened={"flowsFilter": "all"}),
    Recipe: Shape(
        path="/v4/wrangledDatasets",
        make=_recipe,
        parent=Flow,
        parent_attribute="flow_id",
        needs=(ImportedDataset,),
    ),
    OutputObject: Shape(
        path="/v4/outputObjects", make=_output, parent=Recipe, parent_attribute="recipe_id"
    ),
    WriteSetting: Shape(
        path="/v4/writeSettings",
        make=_setting,
        parent=OutputObject,
        parent_attribute="output_object_id",
        changed_field="path",
    ),
    Publication: Shape(
        path="/v4/publications",
        make=_publication,
        parent=OutputObject,
        parent_attribute="output_object_id",
        changed_field="tableName",
        needs=(Connection,),
    ),
    SqlScript: Shape(
        path="/v4/sqlScripts",
        make=_script,
        parent=OutputObject,
        parent_attribute="output_object_id",
        changed_field="sqlScript",
        needs=(Connection,),
    ),
    Plan: Shape(path="/v4/plans", make=_named, widened={"ownershipFilter": "all"}, read="/full"),
    Schedule: Shape(path="/v4/schedules", make=_schedule, needs=(Flow,), change="PUT"),
}
SHARED = (Flow, Plan)


class Expected:
    """Everything that exists, and what follows from that for lists, counts and deletions."""

    def __init__(self) -> None:
        self.things: dict[tuple[type[Record], int], Thing] = {}

    def add(self, thing: Thing) -> Thing:
        self.things[thing.kind, thing.id] = thing
        return thing

    def live(self, *kinds: type[Record]) -> list[Thing]:
        """Return what exists of some kinds."""
        return [
            thing for thing in self.things.values() if thing.kind in kinds and not thing.is_deleted
        ]

    def sees(self, person: int, thing: Thing) -> bool:
        """True where a list of all that a person sees shows the thing."""
        if thing.kind is ImportedDataset and thing.owner != person:
            readers = [recipe for recipe in self.live(Recipe) if thing in recipe.uses]
            return any(self.sees(person, reader) for reader in readers)
        if SHAPES[thing.kind].is_for_everybody:
            return True
        return thing.home.owner == person or person in thing.home.shared_with

    def may_change(self, person: int, thing: Thing) -> bool:
        home = thing.home
        return home.owner == person or person in home.shared_with - home.read_only

    def listed(self, kind: type[Record], person: int) -> set[int]:
        """Return the ids that a list shows to a person."""
        return {thing.id for thing in self.live(kind) if self.sees(person, thing)}

    def owned(self, kind: type[Record], person: int) -> set[int]:
        """Return the ids of what is a person's own."""
        return {thing.id for thing in self.live(kind) if thing.owner == person}

    def filed(self, folder: Thing) -> set[int]:
        """Return the ids of the flows in a folder."""
        return {flow.id for flow in self.live(Flow) if flow.folder is folder}

    def parts_of(self, thing: Thing) -> Iterator[Thing]:
        """Yield a thing and everything that goes with it, what exists only."""
        yield thing
        for other_thing in list(self.things.values()):
            if other_thing.parent is thing and not other_thing.is_deleted:
                yield from self.parts_of(other_thing)

    def is_referenced(self, thing: Thing) -> bool:
        """True where something that would stay holds it, or a part of it."""
        doomed = set(self.parts_of(thing))
        holders = [
            other_thing
            for other_thing in self.things.values()
            if not other_thing.is_deleted and other_thing not in doomed
        ]
        return any(holder.uses & doomed for holder in holders if holder.kind is not Schedule)

    def delete(self, thing: Thing) -> set[Thing]:
        """Mark a thing and its parts as deleted; return them."""
        doomed = set(self.parts_of(thing))
        for part in doomed:
            part.is_deleted = True
        for flow in self.live(Flow):
            if flow.folder in doomed:
                flow.folder = None
        return doomed

    def transfer(self, giver: int, receiver: int) -> None:
        """Make everything of one person another's."""
        for thing in self.things.values():
            if thing.owner == giver:
                thing.owner = receiver
                thing.shared_with.discard(receiver)
                thing.read_only.discard(receiver)


def tally(things: Iterable[Thing]) -> dict[str, int]:
    """Return how many there are of each kind."""
    match: dict[str, int] = {}
    for thing in things:
        match[thing.kind.__name__] = match.get(thing.kind.__name__, 0) + 1
    return match
