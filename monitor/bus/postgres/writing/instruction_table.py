"""Instructions: stored by any daemon, executed once by the shard's holder.

An outcome is written like everything of a shard: in a transaction that checks who holds it. An open
instruction stands in its table until then, so a new holder finds what the former one left.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import bus_errors
from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.bus.postgres.connections.reader import PostgresReader
from monitor.bus.postgres.leases.notifications import ClusterNews
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.bus.shards import Instruction
from monitor.model.errors import BusLostError, BusUnavailableError, ConfigurationError

OPEN_BOUND = 100  # instructions of one shard that wait for its holder
_READ_AT_ONCE = 1_000
_FINISHED_KEPT = 1_000  # numbers: a read that began before may still show them as open
_POLL_SECONDS = 1.0  # for an outcome, where no notification comes

_OPEN = (
    "SELECT instruction.number, instruction.shard, instruction.kind, instruction.body,"
    " instruction.created_by FROM unnest($1::int[]) AS given (shard) JOIN instruction"
    " ON instruction.shard = given.shard AND instruction.done_at IS NULL"
    " ORDER BY instruction.number LIMIT $2"
)
_FINISH = (
    "UPDATE instruction SET done_at = clock_timestamp(), outcome = $2"
    " WHERE number = $1 AND done_at IS NULL"
)
_INSTRUCT = (
    "INSERT INTO instruction (shard, id, kind, body, created_by)"
    " SELECT shard.number, gen_random_uuid()::text, $2, $3, $4 FROM shard WHERE shard.name = $1"
    " AND (SELECT count(*) FROM instruction AS waiting WHERE waiting.shard = shard.number"
    " AND waiting.done_at IS NULL) < $5 RETURNING number"
)
_FORGET = "DELETE FROM instruction WHERE done_at < clock_timestamp() - interval '1 day'"
_OUTCOMES = (
    "SELECT instruction.number, instruction.outcome FROM unnest($1::bigint[]) AS given (number)"
    " JOIN instruction ON instruction.number = given.number"
    " WHERE instruction.done_at IS NOT NULL"
)


class PostgresInstructions:
    """The instructions of one shard, for its holder."""

    def __init__(self, held: LeasedShard, writer: PostgresWriter) -> None:
        self.shard = held.number
        self._held = held
        self._writer = writer
        self._open: dict[int, Instruction] = {}
        self._finished: deque[int] = deque(maxlen=_FINISHED_KEPT)
        self._has_news = asyncio.Event()
        self.on_finished: Callable[[], None] = lambda: None

    async def next(self) -> Instruction:
        while not self._open:
            self._has_news.clear()
            await self._has_news.wait()
        return self._open[min(self._open)]

    async def finish(self, instruction_id: int, outcome: bytes, *, timeout_seconds: float) -> None:
        async def write(connection: Connection, _: Sequence[LeasedShard]) -> None:
            await connection.execute(_FINISH, instruction_id, outcome)

        def forget(_: object) -> None:
            self._finished.append(instruction_id)
            self._open.pop(instruction_id, None)

        await self._writer.run(write, [self._held], timeout_seconds=timeout_seconds, on_kept=forget)
        if instruction_id in self._open:
            raise BusLostError("another daemon holds the shard")
        self.on_finished()

    def learn(self, instructions: Sequence[Instruction]) -> None:
        """Take all that are open, as they were read."""
        self._open = {
            instruction.id: instruction
            for instruction in instructions
            if instruction.id not in self._finished
        }
        if self._open:
            self._has_news.set()


async def learn_instructions(
    reader: PostgresReader, shards: Sequence[PostgresInstructions]
) -> None:
    """Read what is open of several shards, in one query."""
    if not shards:
        return
    rows = await reader.fetch(_OPEN, [instructions.shard for instructions in shards], _READ_AT_ONCE)
    found: defaultdict[int, list[Instruction]] = defaultdict(list)
    for row in rows:
        found[row["shard"]].append(
            Instruction(
                id=row["number"],
                kind=codec.read_text(row["kind"]),
                body=row["body"],
                created_by=codec.read_text(row["created_by"]),
            )
        )
    for instructions in shards:
        instructions.learn(found[instructions.shard])


class InstructionSender:
    """Stores instructions for shards of other daemons, and waits for their outcomes.

    It has a connection of its own: a slow standby must not delay a heartbeat.
    """

    def __init__(
        self,
        connector: PostgresConnector,
        reader: PostgresReader,
        news: ClusterNews,
        *,
        daemon_id: str,
        on_stored: Callable[[], None],
    ) -> None:
        self._connector = connector
        self._reader = reader
        self._news = news
        self._daemon_id = daemon_id
        self._on_stored = on_stored
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._awaited: defaultdict[int, list[asyncio.Future[bytes]]] = defaultdict(list)
        self._waiting: asyncio.Task[None] | None = None

    async def instruct(self, shard: str, kind: str, body: bytes, *, timeout_seconds: float) -> int:
        """Return the number of a durable instruction; raises as the contract says."""
        values = (codec.text(shard), kind, body, codec.text(self._daemon_id), OPEN_BOUND)
        try:
            async with asyncio.timeout(timeout_seconds), self._turn:
                number = await self._insert(values)
        except TimeoutError as exc:
            raise BusUnavailableError(
                f"the store did not answer within {timeout_seconds:g} s"
            ) from exc
        if number is None:
            raise ConfigurationError(
                f"{OPEN_BOUND} instructions wait already for the holder of shard {shard!r}"
            )
        self._on_stored()
        return number

    async def _insert(self, values: tuple[object, ...]) -> int | None:
        try:
            with bus_errors():
                if self._connection is None:
                    self._connection = await self._connector.connect(purpose="instructions")
                await self._connection.execute(_FORGET)
                number: int | None = await self._connection.fetchval(_INSTRUCT, *values)
        except BaseException:
            self.close()
            raise
        return number

    async def outcome(self, instruction_id: int, *, timeout_seconds: float) -> bytes | None:
        """Return the outcome, None where there is none in time."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._awaited[instruction_id].append(answer)
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._read_outcomes(), name="instructions")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await answer
        except TimeoutError:
            return None
        finally:
            waiting = self._awaited[instruction_id]
            waiting.remove(answer)
            if not waiting:
                del self._awaited[instruction_id]

    async def _read_outcomes(self) -> None:
        """Read the outcomes that are awaited, all of them in one query, while any is."""
        while self._awaited:
            try:
                rows = await self._reader.fetch(_OUTCOMES, list(self._awaited))
            except BusUnavailableError as exc:
                for answers in self._awaited.values():
                    for answer in answers:
                        if not answer.done():
                            answer.set_exception(BusUnavailableError(str(exc)))
                return
            for row in rows:
                for answer in self._awaited.get(row["number"], ()):
                    if not answer.done():
                        answer.set_result(row["outcome"])
            await self._news.wait(timeout_seconds=_POLL_SECONDS)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def stop(self) -> None:
        """End the wait for outcomes, and the connection."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})
        self.close()
