"""Reads the job records of many job groups by few requests, where the workspace offers that.

The list of all job groups embeds them. It names no ids in its query, but it is sorted by them: a
page is asked for where the wanted ids should stand, and what it shows corrects the guess for the
next one. Ids only grow, so a place in ascending order moves only when something is deleted.

What a page lacks proves nothing and is left to be read by its id.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import pairwise

import msgspec
import structlog
from msgspec import Struct

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError, UnauthorizedError, WorkspaceError
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.workspace.payloads import JobRow, JobsPage
from monitor.workspace.priority import Priority

log = structlog.get_logger()

FEW = 4  # so many are read by their ids: a page that must be looked for may take some requests
_FRUITLESS_PAGES = 3  # pages in a row that show nothing wanted
_FAILURES = 3  # in a row: the list does not serve
_MARGIN = 5  # rows before the place where the first wanted id should stand
_REFUSED_SECONDS = 3_600.0  # until a list that did not serve is tried again


class ReadRecords(Struct, frozen=True, kw_only=True):
    """The records of one job group, and the workspace's time when reading them began."""

    jobs: tuple[JobRow, ...]
    read_at: datetime | None


class _Place(Struct, frozen=True, kw_only=True):
    """Where an id stands in ascending order, and how far ids lie apart around it."""

    id: int
    offset: int
    spacing: float


class JobRecords:
    """The list of job groups with their jobs embedded; used from one event loop.

    It serves once a page has carried records that a read by id shows too.
    """

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._place: _Place | None = None
        self.is_proven = False
        self._failures = 0
        self._refused_at: float | None = None  # monotonic

    def can_list(self, count: int) -> bool:
        """True where so many are better read by the list."""
        if count < FEW or self._context.is_unproven():
            return False
        if not self._context.can(Capability.READ_JOBS):
            return False
        now = self._context.clock.monotonic()
        return self._refused_at is None or now - self._refused_at >= _REFUSED_SECONDS

    async def read(
        self, job_group_ids: Collection[str], *, priority: Priority, most_requests: int
    ) -> dict[str, ReadRecords]:
        """Return the records of those of the job groups that pages show with any.

        Raises:
            TryLaterError, UnauthorizedError: the list cannot be read now.
        """
        wanted = sorted(int(id_) for id_ in job_group_ids if id_.isascii() and id_.isdigit())
        found: dict[str, ReadRecords] = {}
        fruitless = 0
        for _ in range(most_requests):
            wanted = self._worth_a_page(wanted)
            if not wanted or fruitless >= _FRUITLESS_PAGES:
                break
            page = await self._page(wanted, priority)
            if page is None:
                break
            records = {
                row.id: ReadRecords(jobs=row.jobs, read_at=page.began_at)
                for row in page.rows
                if row.jobs
            }
            shown = [int(id_) for id_ in page.ids]
            left = [id_ for id_ in wanted if not shown[0] <= id_ <= shown[-1]]
            if page.rows and not await self._prove(records, priority):
                break
            found |= records
            fruitless = fruitless + 1 if len(left) == len(wanted) else 0
            wanted = left
        return found

    def _worth_a_page(self, wanted: Sequence[int]) -> list[int]:
        """Return the wanted ids from the first on that has enough of them on one page."""
        reach = self._context.client.settings.page_size * self._spacing(wanted)
        for start, id_ in enumerate(wanted):
            if start + FEW <= len(wanted) and wanted[start + FEW - 1] < id_ + reach:
                return list(wanted[start:])
        return []

    def _spacing(self, wanted: Sequence[int]) -> float:
        if self._place is not None:
            return self._place.spacing
        # Others stand between those that are wanted, so theirs is the widest that it can be.
        return max(1.0, (wanted[-1] - wanted[0]) / max(1, len(wanted) - 1)) if wanted else 1.0

    async def _page(self, wanted: Sequence[int], priority: Priority) -> JobsPage | None:
        """Read the page on which the first wanted ids should stand, in ascending order.

        None where the list cannot serve.
        """
        place = self._place
        spacing, offset = self._spacing(wanted), 0
        if place is not None:
            offset = max(0, int(place.offset + (wanted[0] - place.id) / spacing) - _MARGIN)
        ids = frozenset(map(str, wanted))
        read = self._context.client.runs.jobs_of_many
        try:
            page = await read(ids, offset=offset, newest_first=place is None, priority=priority)
        except (TryLaterError, UnauthorizedError) as error:
            if is_about_the_object(error):
                self._count_failure(str(error))
            raise
        except WorkspaceError as error:
            self._refuse(str(error))
            return None
        if place is None:
            # It began at the newest one: turned round, it ends there.
            page = msgspec.structs.replace(page, ids=page.ids[::-1])
            if page.count is None:
                self._refuse("it is not counted")
                return None
            offset = max(0, page.count - len(page.ids))
        return page if self._learn(page.ids, offset, spacing) else None

    def _learn(self, ids: Sequence[str], offset: int, spacing: float) -> bool:
        """Remember where the page stands; False where it is not sorted by id."""
        try:
            numbers = [int(id_) for id_ in ids]
        except ValueError:
            numbers = [0, 0]
        if any(first >= other for first, other in pairwise(numbers)):
            self._refuse("it is not sorted by id")
            return False
        if not numbers:
            self._place = None  # past the end, after deletions; the next reading starts over
            return False
        if len(numbers) > 1:
            spacing = (numbers[-1] - numbers[0]) / (len(numbers) - 1)
        self._place = _Place(id=numbers[-1], offset=offset + len(numbers) - 1, spacing=spacing)
        return True

    async def _prove(self, records: dict[str, ReadRecords], priority: Priority) -> bool:
        """True where the list shows records, and those that a read by id shows."""
        if records and not self.is_proven:
            self.is_proven = await self._is_confirmed(records, priority)
        if records and self.is_proven:
            self._failures = 0
            return True
        # It may be chance once: a job may have begun between the two reads.
        self._count_failure("it does not show the job records that a read by id shows")
        return False

    async def _is_confirmed(self, records: dict[str, ReadRecords], priority: Priority) -> bool:
        id_, listed = max(records.items(), key=lambda record: len(record[1].jobs))
        try:
            read = await self._context.client.runs.jobs(id_, priority=priority)
        except WorkspaceError as error:
            if not is_about_the_object(error):
                raise
            log.info("job records not readable", job_group=id_, reason=str(error))
            return False
        return {job.id for job in read} == {job.id for job in listed.jobs}

    def _count_failure(self, reason: str) -> None:
        self._failures += 1
        if self._failures >= _FAILURES:
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        log.info("list of job records not used", workspace=self._context.name, reason=reason)
        self._refused_at = self._context.clock.monotonic()
        self._place, self.is_proven, self._failures = None, False, 0
