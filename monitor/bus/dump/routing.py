"""Routes each row of a dump into the shard of its workspace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from monitor.bus.contract import DeadLetter
from monitor.bus.contract.store_entries import DUMPED_TOPICS
from monitor.bus.dump.dump_records import Row, Shards, StoreTable
from monitor.bus.shards import CLUSTER, SOLE
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusSchemaError

T = TypeVar("T")
# Returns where what is about a workspace of a shard goes; None leaves it out. It is asked about
# `BRIDGE` for what is about no workspace, or about one that is gone.
Place = Callable[[str, str], str | None]


def place_in_dump(*, workspace: str | None = None, shard: str | None = None) -> Place:
    """Return where an export puts everything, or only a shard, or a workspace as a shard."""

    def place(of_shard: str, of_workspace: str) -> str | None:
        if workspace is not None:
            return workspace if of_workspace == workspace else None
        return of_shard if shard in (None, of_shard) else None

    return place


def place_in_file(_shard: str, _workspace: str) -> str:
    """Return the one shard that a file has."""
    return SOLE


def place_in_database(shards: Shards, configured: Mapping[str, str]) -> Place:
    """Return where an import puts what is in ``shards``.

    A workspace goes into the shard that is ``configured`` for it. Any other stays where it is; out
    of a file, it gets a shard of its own.
    """

    def place(shard: str, workspace: str) -> str:
        if workspace != BRIDGE:
            return configured.get(workspace, shard or workspace)
        targets = {place(shard, name) for name in shards[shard].workspaces} or {shard}
        if shard == SOLE or (shard not in targets and len(targets) > 1):
            return CLUSTER
        return shard if shard in targets else targets.pop()

    return place


class ConsumerStates(Protocol):
    """What the rows are about that consumers keep as their state. Without I/O."""

    exact: frozenset[str]  # consumers whose state counts each event once

    def workspace_of(self, consumer: str) -> str | None:
        """Return the only workspace that a consumer is about; None: it is about all."""

    def learn(self, alert: str, workspace: str) -> None:
        """Remember that an alert with this fingerprint is about that workspace."""

    def parts(self, consumer: str, key: str, value: bytes) -> Iterable[tuple[str | None, bytes]]:
        """Return what of a state is about which workspace; None: a copy goes with each."""

    def join(self, consumer: str, key: str, values: Sequence[bytes]) -> bytes:
        """Return one state for those that several shards have for a key."""


class RoutedRow(NamedTuple):
    """A row on its way from a shard to another one, or the same."""

    to: str
    shard: str
    row: Row
    is_own: bool = False  # an event about the daemons, which several shards may have recorded


class _About(Struct):
    workspace: str
    fingerprint: str = ""


class _AboutRun(Struct):
    key: _About


class _Event(Struct):
    """What of a stored event says where it belongs; nothing else of it is decoded."""

    workspace: str = ""
    run: _AboutRun | None = None
    alert: _About | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_letter = msgspec.json.Decoder(DeadLetter).decode


class Routing:
    """Routes the rows of ``shards``; those of ``name`` that are damaged raise `BusSchemaError`."""

    def __init__(self, name: str, shards: Shards, place: Place, states: ConsumerStates) -> None:
        self._name = name
        self._shards = shards
        self._states = states
        self._places = {
            (shard, workspace): place(shard, workspace)
            for shard, stored in shards.items()
            for workspace in (*stored.workspaces, BRIDGE)
        }
        places: defaultdict[str, dict[str | None, None]] = defaultdict(dict)  # in their order
        for (shard, _), to in self._places.items():
            places[shard][to] = None
        self._undivided = {shard for shard, names in places.items() if len(names) == 1}
        self.targets = {
            shard: [name for name in names if name is not None] for shard, names in places.items()
        }
        self._routes: dict[StoreTable, Callable[..., Iterator[RoutedRow]]] = {
            StoreTable.CONSUMER: self._consumer,
            StoreTable.DEAD_LETTER: self._letter,
            StoreTable.EVENT: self._event,
            StoreTable.CONSUMER_STATE: self._state,
            StoreTable.STORE_ENTRY: self._entry,
        }

    def shard_of(self, shard: str, workspace: str) -> str | None:
        return self._places.get((shard, workspace), self._places[shard, BRIDGE])

    def route(self, table: StoreTable, shard: str, row: Row) -> Iterator[RoutedRow]:
        """Yield the row for each shard that it goes to."""
        route = self._routes.get(table)
        yield from self._to(row[0], shard, row) if route is None else route(shard, row)

    def _to(self, workspace: str, shard: str, row: Row) -> Iterator[RoutedRow]:
        if (to := self.shard_of(shard, workspace)) is not None:
            yield RoutedRow(to, shard, row, workspace == BRIDGE)

    def _event(self, shard: str, row: Row) -> Iterator[RoutedRow]:
        event = self._decoded(f"event {row[0]}", row[-1], _decode_event)
        workspace = event.workspace
        if event.run is not None:
            workspace = event.run.key.workspace
        elif event.alert is not None:
            workspace = event.alert.workspace
            self._states.learn(event.alert.fingerprint, workspace)
        return self._to(workspace, shard, row)

    def _letter(self, shard: str, row: Row) -> Iterator[RoutedRow]:
        letter = self._decoded(f"a dead letter of {row[0]}", row[-1], _decode_letter)
        return self._to(letter.event.workspace, shard, row)

    def _consumer(self, shard: str, row: Row) -> Iterator[RoutedRow]:
        name, position, *_ = row
        if (workspace := self._states.workspace_of(name)) is not None:
            yield from self._to(workspace, shard, row)
            return
        for to in self.targets[shard]:
            yield RoutedRow(to, shard, row)
            # What retention has taken from it is counted once.
            row = (name, position, 0, self._shards[shard].newest_position)

    def _state(self, shard: str, row: Row) -> Iterator[RoutedRow]:
        consumer, key, value = row
        if shard in self._undivided:
            yield from self._to(BRIDGE, shard, row)
            return
        for workspace, part in self._states.parts(consumer, key, value):
            if workspace is not None:
                yield from self._to(workspace, shard, (consumer, key, part))
                continue
            for to in self.targets[shard]:
                yield RoutedRow(to, shard, row)

    def _entry(self, shard: str, row: Row) -> Iterator[RoutedRow]:
        if row[0] in DUMPED_TOPICS:
            yield from self._to(BRIDGE, shard, row)

    def _decoded(self, what: str, body: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
            raise BusSchemaError(
                f"{self._name}: {what} is damaged: {exc}; restore a backup"
            ) from exc


def with_position(body: bytes, position: int) -> bytes:
    """Return a stored dead letter as it is stored at another position."""
    letter = msgspec.structs.replace(_decode_letter(body), position=position)
    return msgspec.json.encode(letter)
