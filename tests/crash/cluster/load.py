"""What happens in the workspaces meanwhile: runs that end well or badly, and their callbacks."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence

import aiohttp
from msgspec import Struct

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.ledger import RESULTS
from monitor.sandbox.world.records.objects import Recipe
from monitor.sandbox.world.records.runs import RanFor
from tests.app.eventually import eventually, pause
from tests.app.fixture import SECRET

_AGAIN_SECONDS = 0.1
_TIMEOUT = aiohttp.ClientTimeout(total=5)
_READ_SECONDS = 0.2
_APART_SECONDS = 2.5  # by times of whole seconds the last successes are later than all failures
_FAILED_RATIO = 0.3  # of job groups
_TWICE_RATIO = 0.2  # of callbacks that are sent to two daemons
_LASTING_WORK_SECONDS = 1.5


class EndCallback(Struct, frozen=True):
    """A callback as a webhook task sends it."""

    workspace: str
    run_id: str
    status: str

    @property
    def fingerprint(self) -> tuple[str, str]:
        """Return its workspace, and what the store knows it by there."""
        return self.workspace, f"job_group:{self.run_id}:{self.status.lower()}"


class Load:
    """Starts job groups without end, and sends each end to whichever daemon answers 2xx."""

    def __init__(
        self,
        workspaces: Mapping[str, Sandbox],
        callback_ports: Sequence[int],
        *,
        chance: random.Random,
        pause_seconds: float,
    ) -> None:
        self._workspaces = workspaces
        self._ports = callback_ports
        self._chance = chance
        self._pause_seconds = pause_seconds
        self._read: Counter[str] = Counter()  # of each ledger
        self.acknowledged: list[EndCallback] = []
        self.refused: Counter[str] = Counter()
        self.lasting_until = float("inf")  # of `time.time`

    def fail_lastingly(self) -> None:
        """Let a recipe of each workspace fail that does not run again before the load ends."""
        for sandbox in self._workspaces.values():
            *_, lasting = _recipes_of(sandbox)
            # An end in the very second in which following began may be of just before it.
            _start(sandbox, lasting, outcome=Outcome.FAILED, work_seconds=_LASTING_WORK_SECONDS)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start job groups meanwhile; at the end, return when every callback was acknowledged.

        The last run of each recipe ends well, so that nothing fails in the end.
        """
        is_over = asyncio.Event()
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, asyncio.TaskGroup() as group:
            starting = [
                group.create_task(self._start_on(sandbox)) for sandbox in self._workspaces.values()
            ]
            sending = group.create_task(self._send_on(session, group, is_over))
            try:
                yield
            except BaseException:
                sending.cancel()
                raise
            finally:
                for task in starting:
                    task.cancel()
            await self._until_inactive()
            await pause(_APART_SECONDS)
            self.lasting_until = time.time()
            for sandbox in self._workspaces.values():
                for recipe in _recipes_of(sandbox):
                    _start(sandbox, recipe, outcome=Outcome.COMPLETE, work_seconds=0.5)
            await self._until_inactive()
            is_over.set()

    async def _until_inactive(self) -> None:
        await eventually(
            lambda: not any(sandbox.ledger.active() for sandbox in self._workspaces.values()),
            why="the sandbox is slow",
            within_seconds=60,
        )

    async def _start_on(self, sandbox: Sandbox) -> None:
        *recipes, _ = _recipes_of(sandbox)
        while True:
            outcome = Outcome.FAILED if self._chance.random() < _FAILED_RATIO else Outcome.COMPLETE
            recipe = self._chance.choice(recipes)
            seconds = self._chance.uniform(0.2, 2.5)
            _start(sandbox, recipe, outcome=outcome, work_seconds=seconds)
            await pause(self._chance.uniform(0, 2 * self._pause_seconds))

    async def _send_on(
        self,
        session: aiohttp.ClientSession,
        group: asyncio.TaskGroup,
        is_over: asyncio.Event,
    ) -> None:
        is_last = False
        while not is_last:
            is_last = is_over.is_set()
            for callback in self._new_ends():
                group.create_task(self._send(session, callback))
                if self._chance.random() < _TWICE_RATIO:
                    group.create_task(self._send(session, callback))
            await pause(_READ_SECONDS)

    def _new_ends(self) -> list[EndCallback]:
        ends = []
        for name, sandbox in self._workspaces.items():
            transitions = sandbox.ledger.transitions()
            new = transitions[self._read[name] :]
            self._read[name] = len(transitions)
            ends += [
                EndCallback(name, str(transition.run_id), transition.after)
                for transition in new
                if transition.kind == "job_group" and transition.after in RESULTS
            ]
        return ends

    async def _send(self, session: aiohttp.ClientSession, callback: EndCallback) -> None:
        while not await self._is_accepted(session, callback):
            await pause(_AGAIN_SECONDS)
        self.acknowledged.append(callback)

    async def _is_accepted(self, session: aiohttp.ClientSession, callback: EndCallback) -> bool:
        url = f"http://127.0.0.1:{self._chance.choice(self._ports)}/hooks/{callback.workspace}"
        body = {"job_id": callback.run_id, "status": callback.status}
        try:
            async with session.post(url, json=body, headers={"X-Monitor-Secret": SECRET}) as answer:
                if answer.status // 100 == 2:
                    return True
                self.refused[str(answer.status)] += 1
        except (aiohttp.ClientError, TimeoutError) as exc:
            self.refused[type(exc).__name__] += 1
        return False


def _recipes_of(sandbox: Sandbox) -> list[Recipe]:
    world = sandbox.world
    return [recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)]


def _start(sandbox: Sandbox, recipe: Recipe, *, outcome: Outcome, work_seconds: float) -> None:
    sandbox.engine.order(
        Order(recipe_id=recipe.id, outcome=outcome, queue_seconds=0.1, work_seconds=work_seconds)
    )
    sandbox.engine.start_job_group(recipe, by=recipe.creator_id, ran_for=RanFor.RECIPE)
