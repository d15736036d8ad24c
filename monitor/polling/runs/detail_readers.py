"""The tasks that read the job records of ended job groups and observe what no caller waits for.

Records that a caller waits for, and few, are read by their ids; many together, see `JobRecords`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import msgspec
import structlog

from monitor.model.errors import BusError, TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.observations import Observation
from monitor.model.runs import Source
from monitor.model.slices import in_slices
from monitor.polling.context import PollContext
from monitor.polling.runs.detail_queue import DetailQueue, DetailRequest
from monitor.polling.runs.job_records import FEW, JobRecords
from monitor.polling.runs.run_observations import job_summary, with_jobs
from monitor.workspace.payloads import JobRow

log = structlog.get_logger()

OLDEST_SECONDS = 86_400.0  # after which records are given up
_READERS = 4
_PIECE = 20  # observations; callbacks wait for the commit of one piece
# For each one of those that were read together last, the next ones are gathered for so long.
_GATHER_SECONDS = 2.5
_LONGEST_GATHER_SECONDS = 10.0
_GATHERED_AT_MOST = 1_000
# Records that show an unfinished job after the group's end are read again, up to a limit.
_READS_OF_UNFINISHED = 3


class DetailReaders:
    """Empties the queue of job records."""

    def __init__(self, context: PollContext, queue: DetailQueue, records: JobRecords) -> None:
        self._context = context
        self._queue = queue
        self._records = records

    async def run(self) -> None:
        """Read what is requested, until cancelled."""
        name = f"{self._context.name}: details"
        async with asyncio.TaskGroup() as group:
            for number in range(_READERS):
                group.create_task(self._read_on(), name=f"{name} {number}")
            group.create_task(self._read_gathered_on(), name=f"{name} of many")

    async def _read_on(self) -> None:
        while True:
            request = await self._queue.take()
            await self._context.until_answering()
            try:
                await self._read(request)
            except (TryLaterError, UnauthorizedError, BusError) as error:
                self._put_back(request, str(error))

    def _put_back(self, request: DetailRequest, reason: str) -> None:
        waited = self._context.clock.monotonic() - request.requested_at
        if waited > OLDEST_SECONDS:
            # Or such requests would fill the queue in the end. A restart queues none so old.
            log.warning("job records given up", run=str(request.observation.key), reason=reason)
            self._queue.finish(request)
            return
        log.debug("job records put off", run=str(request.observation.key), reason=reason)
        self._queue.put_back(request)

    async def _read(self, request: DetailRequest) -> None:
        client, key = self._context.client, request.observation.key
        try:
            rows = await client.runs.jobs(key.id, priority=request.priority)
        except (TryLaterError, UnauthorizedError):
            raise
        except WorkspaceError as error:
            log.info("job records not readable", run=str(key), reason=str(error))
            request.is_impossible = True
        else:
            self._take(request, rows, client.workspace_now())
            if not request.is_final:
                self._queue.read_again(request)
                return
        if request.is_late:
            await self._observe((request,))
        self._queue.finish(request)

    def _take(
        self, request: DetailRequest, rows: Sequence[JobRow], read_at: datetime | None
    ) -> None:
        request.summary = job_summary(rows, read_at=read_at)
        request.reads += 1
        request.is_final = request.summary.are_over or request.reads >= _READS_OF_UNFINISHED

    async def _read_gathered_on(self) -> None:
        """Read together what no caller waits for; the more of it there is, the more is gathered."""
        while True:
            requests = await self._queue.take_gathered(_GATHERED_AT_MOST)
            await self._context.until_answering()
            try:
                await self._read_gathered(requests)
            except (TryLaterError, UnauthorizedError, BusError) as error:
                for request in requests:
                    self._put_back(request, str(error))
            seconds = min(_LONGEST_GATHER_SECONDS, _GATHER_SECONDS * len(requests))
            await self._queue.gather(seconds)

    async def _read_gathered(self, requests: Sequence[DetailRequest]) -> None:
        """Read by few requests what a list shows; the rest goes to the other readers."""
        read: list[DetailRequest] = []
        if self._records.can_list(len(requests)):
            records = await self._records.read(
                [request.observation.key.id for request in requests],
                priority=min(request.priority for request in requests),
                most_requests=len(requests) // FEW,
            )
            async for request in in_slices(requests, size=_PIECE):
                if (found := records.get(request.observation.key.id)) is not None:
                    self._take(request, found.jobs, found.read_at)
                    read += [request] if request.is_final else []
            for start in range(0, len(read), _PIECE):
                await self._observe(read[start : start + _PIECE])
        for request in requests:
            if request.is_final:
                self._queue.finish(request)
            else:
                self._queue.read_alone(request)

    async def _observe(self, requests: Sequence[DetailRequest]) -> None:
        now = self._context.clock.now()
        await self._context.observer.observe(
            [
                msgspec.structs.replace(
                    joined(end := request.observation, request),
                    source=Source.DETAIL,
                    # The end that a callback named is not confirmed by job records.
                    native_status=None if end.source is Source.CALLBACK else end.native_status,
                    observed_at=now,
                    inbox_id=None,
                )
                for request in requests
            ]
        )


def joined(observation: Observation, request: DetailRequest | None) -> Observation:
    """Return the observation with what was read for it, as far as that is all."""
    if request is None:
        return observation
    if request.is_impossible:
        return final(observation)
    if request.summary is None or not request.is_final:
        return observation
    return with_jobs(observation, request.summary, is_final=True)


def final(observation: Observation) -> Observation:
    """Return the observation as one to which no job record will ever add."""
    return msgspec.structs.replace(observation, is_detail_final=True)
