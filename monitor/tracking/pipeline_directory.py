"""The names of pipelines, and the labels that tell pipelines of one name apart."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.live_state import NamedPipeline
from monitor.model.runs import Pipeline, PipelineKind

PipelineId = tuple[str, PipelineKind, str]  # workspace, kind, id
_Name = tuple[str, PipelineKind, str]  # workspace, kind, name
_NOWHERE: tuple[str | None, str | None] = (None, None)


class _Namesakes(Struct):
    """The pipelines of one name; the lowest id keeps the plain name as its label."""

    lowest: PipelineId
    ids: set[PipelineId]


class PipelineDirectory:
    """Name, label, folder and owner of each pipeline. A change costs what it changes."""

    def __init__(self) -> None:
        self._names: dict[PipelineId, str | None] = {}
        self._locations: dict[PipelineId, tuple[str | None, str | None]] = {}  # folder, owner
        self._namesakes: dict[_Name, _Namesakes] = {}
        self._shared: set[_Name] = set()  # names of more than one
        self._all: tuple[NamedPipeline, ...] | None = None  # until anything changes
        self._named: dict[PipelineId, NamedPipeline] = {}

    def name(self, identity: PipelineId, name: str | None) -> None:
        """Remember a pipeline and its present name; None keeps a name that is known."""
        is_known = identity in self._names
        if is_known and (name is None or self._names[identity] == name):
            return
        if is_known:
            self._leave_namesakes(identity)
        self._names[identity] = name
        if name is not None:
            self._join_namesakes(identity, name)
        self._show(identity)

    def place(self, identity: PipelineId, *, folder: str | None, owner: str | None) -> None:
        """Remember the folder and the owner of a pipeline."""
        is_new = self._locations.get(identity) != (folder, owner)
        self._locations[identity] = folder, owner
        if is_new and identity in self._names:
            self._show(identity)

    def forget(self, identity: PipelineId) -> None:
        """Drop a pipeline that the workspace no longer has."""
        self._locations.pop(identity, None)
        if identity in self._names:
            self._leave_namesakes(identity)
            del self._names[identity], self._named[identity]
            self._all = None

    def forget_workspace(self, workspace: str) -> None:
        """Drop all pipelines of a workspace."""
        for identity in {*self._names, *self._locations}:
            if identity[0] == workspace:
                self.forget(identity)

    def knows(self, identity: PipelineId) -> bool:
        return identity in self._names

    def name_of(self, identity: PipelineId) -> str | None:
        return self._names.get(identity)

    def place_of(self, identity: PipelineId) -> tuple[str | None, str | None]:
        """Return folder and owner, None where they are not known."""
        return self._locations.get(identity, _NOWHERE)

    def label(self, workspace: str, pipeline: Pipeline | None) -> str:
        """Return a name that is unique among the workspace's pipelines of that kind."""
        if pipeline is None:
            return "unknown"
        named = self._named.get((workspace, pipeline.kind, pipeline.id))
        return named.label if named is not None else pipeline.name or f"#{pipeline.id}"

    def named(self, workspace: str, kind: PipelineKind, name: str) -> str | None:
        """Return the id of the pipeline whose label is the plain name."""
        namesakes = self._namesakes.get((workspace, kind, name))
        return None if namesakes is None else namesakes.lowest[2]

    def all(self) -> tuple[NamedPipeline, ...]:
        """Return every pipeline; the same tuple until one of them changes."""
        if self._all is None:
            self._all = tuple(self._named.values())
        return self._all

    def get(self, identity: PipelineId) -> NamedPipeline | None:
        return self._named.get(identity)

    def shared(self, workspace: str) -> tuple[tuple[PipelineKind, str, str], ...]:
        """Return kind, id and name of the pipelines that share their name with another."""
        return tuple(
            sorted(
                (kind, pipeline_id, name)
                for named_in, kind, name in self._shared
                if named_in == workspace
                for _, _, pipeline_id in self._namesakes[named_in, kind, name].ids
            )
        )

    def _join_namesakes(self, identity: PipelineId, name: str) -> None:
        workspace, kind, _ = identity
        named = workspace, kind, name
        namesakes = self._namesakes.setdefault(named, _Namesakes(identity, set()))
        namesakes.ids.add(identity)
        if len(namesakes.ids) > 1:
            self._shared.add(named)
        if _by_number(identity) < _by_number(namesakes.lowest):
            former, namesakes.lowest = namesakes.lowest, identity
            self._show(former)

    def _leave_namesakes(self, identity: PipelineId) -> None:
        workspace, kind, _ = identity
        name = self._names[identity]
        if name is None:
            return
        named = workspace, kind, name
        namesakes = self._namesakes[named]
        namesakes.ids.remove(identity)
        if len(namesakes.ids) <= 1:
            self._shared.discard(named)
        if not namesakes.ids:
            del self._namesakes[named]
        elif namesakes.lowest == identity:
            namesakes.lowest = min(namesakes.ids, key=_by_number)
            self._show(namesakes.lowest)

    def _show(self, identity: PipelineId) -> None:
        workspace, kind, pipeline_id = identity
        name = self._names[identity]
        folder, owner = self.place_of(identity)
        self._all = None
        self._named[identity] = NamedPipeline(
            workspace=workspace,
            kind=kind,
            id=pipeline_id,
            name=name,
            label=self._label_of(identity, name),
            folder=folder,
            owner=owner,
        )

    def _label_of(self, identity: PipelineId, name: str | None) -> str:
        workspace, kind, pipeline_id = identity
        if name is None:
            return f"#{pipeline_id}"
        is_lowest = self._namesakes[workspace, kind, name].lowest == identity
        return name if is_lowest else f"{name}#{pipeline_id}"


def _by_number(identity: PipelineId) -> tuple[str, str, int, str]:
    # The lower id keeps the plain name; ids are text, and "10" is not below "9".
    workspace, kind, pipeline_id = identity
    number = int(pipeline_id) if pipeline_id.isdecimal() else 0
    return workspace, kind, number, pipeline_id
