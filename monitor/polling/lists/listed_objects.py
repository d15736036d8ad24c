"""The flows, plans or schedules that a list has shown: the next one must show them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime, timedelta

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus, decode_entries
from monitor.model.errors import DoubtedListError
from monitor.model.runs import PipelineKind
from monitor.model.slices import in_slices
from monitor.polling.lists.list_check import ListCheck, Remove
from monitor.polling.lists.token_owner import TokenOwner
from monitor.polling.poll_loop.context import PollContext
from monitor.tracking.live_state import LiveState
from monitor.workspace.payloads import BadRow

log = structlog.get_logger()

LISTED = "inventory"  # topic of the state entries with what was listed last

# 500 that were deleted cost 500 reads in two hours, at most so many after each reading of the list.
_MOST_READS = 24
# What was found gone is remembered while runs of it may still be seen for the first time.
_GONE_KEPT = timedelta(days=30)
_GONE_BOUND = 10_000
NAMED_AT_ONCE = 50  # of 10,000 pipelines; among namesakes, one takes up to 40 microseconds
# A token of another person by mistake is noticed by then; one on purpose must not stay an alert.
_OTHER_OWNER_SECONDS = 3_600.0


class _Listed(Struct, frozen=True, kw_only=True):
    ids: frozenset[str]
    owner: str | None  # of the token that showed them
    names: dict[str, str] = {}  # of pipelines, by id
    gone: dict[str, datetime] = {}  # what was listed: when its id was denied, workspace time


_DECODER = msgspec.json.Decoder(_Listed)


async def show_listed_names(live_state: LiveState, workspace: str, *, bus: EventBus) -> None:
    """Name the pipelines as they were listed last, after all that runs have named.

    Which of two namesakes has the plain name, and what a pipeline is called now, would otherwise
    be decided again until all are listed, and series would change places.

    Raises:
        BusError: it cannot be read.
    """
    stored = await bus.state_entries(workspace, LISTED)
    listed = decode_entries(stored, _DECODER, topic=LISTED)
    for kind in PipelineKind:
        names = listed[kind].names if kind in listed else {}
        async for pipeline_id, name in in_slices(names.items(), size=NAMED_AT_ONCE):
            live_state.name_pipeline(workspace, kind, pipeline_id, name)


class ListedObjects:
    """Durable. What is missing is removed by its id only; see `ListCheck`.

    ``read`` reads one object by its id.
    """

    def __init__(
        self,
        context: PollContext,
        key: str,
        *,
        check: ListCheck,
        owner: TokenOwner,
        read: Callable[[str], Awaitable[object]],
        hidden_seconds: float,
    ) -> None:
        self._context = context
        self._key = str(key)
        self.check = check
        self._owner = owner
        self._read = read
        self._hidden_seconds = hidden_seconds
        self._listed: _Listed | None = None
        self._other_since: float | None = None  # monotonic: another person's token

    @property
    def ids(self) -> frozenset[str] | None:
        """What was listed and not found to be gone since; None before the first list ever."""
        return None if self._listed is None else self._listed.ids

    @property
    def gone(self) -> Mapping[str, datetime]:
        """What was listed and found to be gone, with when that was (workspace time)."""
        return {} if self._listed is None else self._listed.gone

    async def load(self) -> None:
        """Read back what was listed last."""
        stored = await self._context.bus.state_entries(self._context.name, LISTED)
        own = {self._key: stored[self._key]} if self._key in stored else {}
        self._listed = decode_entries(own, _DECODER, topic=LISTED).get(self._key)

    async def compare(
        self,
        shown: Collection[str],
        bad_rows: Collection[BadRow],
        *,
        asked: float,
        remove: Remove,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Find out whether the list is whole, and remember what it shows. Durable on return.

        ``asked`` is when, monotonic. ``remove`` takes what is gone. ``names`` are of pipelines.

        Raises:
            DoubtedListError: it is not, or not all of what it lacks is verified yet.
            WorkspaceError: what it lacks could not be read.
        """
        before = self.ids or frozenset()
        shown = frozenset(shown) | {bad.id for bad in bad_rows if bad.id is not None}
        # A row without an id may be any that seems to be missing.
        missing = [] if any(bad.id is None for bad in bad_rows) else sorted(before - shown)
        known_owner = None if self._listed is None else self._listed.owner
        owner = await (self._owner.read() if missing else self._owner.known())
        is_other_owner = None not in (owner, known_owner) and owner != known_owner
        removed: set[str] = set()
        gone = dict(self.gone)

        async def must_be_listed(id_: str) -> bool:
            await self._read(id_)
            return True

        async def forget(id_: str, is_gone: bool) -> bool:  # noqa: FBT001 - a callback's signature
            if is_removed := await remove(id_, is_gone):
                removed.add(id_)
                if is_gone:
                    gone[id_] = self._context.workspace_now()
            return is_removed

        self.check.showed(before & shown, asked=asked)
        try:
            if is_other_owner:
                await self._accept(
                    missing, f"{known_owner} owned the token, now {owner} does", forget
                )
            else:
                self._other_since = None
                await self.check.verify(
                    missing,
                    shows_known=bool(before & shown),
                    must_be_listed=must_be_listed,
                    remove=forget,
                    most_reads=_MOST_READS,
                    hidden_seconds=self._hidden_seconds,
                )
        except DoubtedListError:
            await self._keep((before | shown) - removed, known_owner, names, gone)
            raise
        owner = (owner or known_owner) if before - shown <= removed else known_owner
        await self._keep((before | shown) - removed, owner, names, gone)

    async def _accept(self, missing: Collection[str], reason: str, remove: Remove) -> None:
        """Doubt the list of another owner for a while, then take it for what there is.

        It never had what the other one had, and what its owner may not see some workspaces deny as
        deleted, so nothing is read by id.
        """
        now = self._context.clock.monotonic()
        self._other_since = now if self._other_since is None else self._other_since
        if now - self._other_since < _OTHER_OWNER_SECONDS:
            self.check.doubt(missing, reason)
            self.check.require()
        log.info("list of another owner accepted", list=self._key, reason=reason)
        for id_ in missing:
            await remove(id_, False)
        self.check.clear(missing)

    async def _keep(
        self,
        ids: frozenset[str],
        owner: str | None,
        names: Mapping[str, str] | None,
        gone: Mapping[str, datetime],
    ) -> None:
        before = {} if self._listed is None else self._listed.names
        kept = {id_: name for id_, name in {**before, **(names or {})}.items() if id_ in ids}
        since = self._context.workspace_now() - _GONE_KEPT
        absent = [(at, id_) for id_, at in gone.items() if id_ not in ids and at >= since]
        newest = {id_: at for at, id_ in sorted(absent)[-_GONE_BOUND:]}
        listed = _Listed(ids=ids, owner=owner, names=kept, gone=newest)
        if listed == self._listed:
            return
        value = msgspec.json.encode({**msgspec.structs.asdict(listed), "ids": sorted(ids)})
        state_entry = self._context.state_entry(LISTED, self._key, value)
        await self._context.observer.observe((), state_entries=(state_entry,))
        self._listed = listed
