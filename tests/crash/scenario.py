"""A daemon as a process between a workspace and a broker; a test may hurt each."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import AsyncIterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from monitor.model.clock import SystemClock
from monitor.sandbox.running.engine import Order
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from monitor.sandbox.world.faults import WorldOptions
from monitor.sandbox.world.records.runs import JobGroup, RanFor
from tests.app.eventually import eventually
from tests.app.fixture import SECRET, started
from tests.app.mqtt_subscriber import ENDS, ReceivedEvents, Subscriber, ends_in, keeping_broker
from tests.app.processes import DaemonProcess, Settings, Watched, daemon_process
from tests.crash import store_copy
from tests.crash.crash_counts import TransitionCounts
from tests.crash.sender import Sender
from tests.crash.sent_alerts import RESEND_SECONDS
from tests.servers import Mosquitto

KINDS = ("flow_run", "job_group", "plan_run")
FORGED_FROM = 95_000_000  # ids that no run of the sandbox reaches
CHANNEL = "team"
GROUP_WAIT_SECONDS = 1.0  # of the channel: a kill fits between what happens and its message
_PATIENCE_SECONDS = 60.0
_FILES_BOUND = 64  # of the daemon at rest: sockets of what has failed are closed


class CrashSettings(Settings):
    """A configuration whose webhook tasks are made by hand, and whose store may be elsewhere."""

    def __init__(
        self,
        folder: Path,
        watched: Watched,
        *,
        broker_url: str,
        store: Path,
        database: str | None = None,
        alertmanager_url: str | None = None,
        channel_url: str | None = None,
    ) -> None:
        """``database`` is the URL of one that is the store in place of the file."""
        self.store = store
        self._channel_url = channel_url
        self._store_url = database or f"sqlite://{store}"
        self._broker = broker_url
        self._alertmanager_url = alertmanager_url
        super().__init__(folder, watched, with_callbacks=True)

    def write(self, *workspaces: Watched) -> None:
        (watched,) = workspaces
        (self.folder / "token").write_text(watched.token)
        (self.folder / "secret").write_text(SECRET)
        alertmanager = (
            f'[alertmanager]\nurls = ["{self._alertmanager_url}"]\n'
            f"resend_seconds = {RESEND_SECONDS}\n"
        )
        self.path.write_text(
            f'[[workspaces]]\nname = "{watched.name}"\nurl = "{watched.url}"\n'
            'token_file = "token"\n'
            "[workspaces.poll]\nactive_seconds = 1\nidle_seconds = 1\nreconcile_seconds = 10\n"
            "names_seconds = 10\nrequests_per_minute = 60000\n"
            '[workspaces.callbacks]\nsecret_file = "secret"\n'
            f'[mqtt]\nurl = "{self._broker}"\nreconnect_cap_seconds = 1\n'
            f'[server]\nlisten = "127.0.0.1:{self.port}"\n'
            f'[callbacks]\nlisten = "127.0.0.1:{self.callbacks_port}"\n'
            "commit_timeout_seconds = 1\n"
            f'[storage]\nurl = "{self._store_url}"\n'
            + (alertmanager if self._alertmanager_url else "")
            + self._channel()
        )

    def _channel(self) -> str:
        """Return a channel that has one message for each step of an alert about a failure."""
        if self._channel_url is None:
            return ""
        (self.folder / "channel").write_text(self._channel_url)
        return (
            f'[[notify]]\nname = "{CHANNEL}"\nurl_file = "channel"\ngroup_by = ["alert"]\n'
            f"group_wait_seconds = {GROUP_WAIT_SECONDS}\n"
            '[notify.match]\nrule = "run_failed"\n'
            "[alerting]\nflap_count = 100\n"
        )


class Scenario:
    """Everything of one scenario, and the questions that its end must answer."""

    def __init__(
        self,
        workspace: Sandbox,
        broker: Mosquitto,
        subscriber: Subscriber,
        daemon: DaemonProcess,
        settings: CrashSettings,
        *,
        seed: int,
    ) -> None:
        assert settings.callbacks_port is not None
        self.workspace = workspace
        self.broker = broker
        self.subscriber = subscriber
        self.daemon = daemon
        self.store = settings.store
        self.sender = Sender(settings.callbacks_port)
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.seed = seed
        self.kills = 0
        self._transitions = TransitionCounts(subscriber)
        self._given_up_before = 0
        self._behind: dict[str, int] = {}
        self._waiting: frozenset[str] = frozenset()

    def start_job_groups(self, count: int, *, work_seconds: tuple[float, float]) -> list[JobGroup]:
        """Start so many at once; each ends when its own time is over."""
        world, engine = self.workspace.world, self.workspace.engine
        recipes = [recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)]
        begun = []
        for _ in range(count):
            seconds = self.chance.uniform(*work_seconds)
            engine.order(Order(queue_seconds=0.1, work_seconds=seconds))
            recipe = self.chance.choice(recipes)
            begun.append(
                engine.start_job_group(recipe, by=recipe.creator_id, ran_for=RanFor.RECIPE)
            )
        return begun

    async def until_received(self, word: str, job_groups: list[JobGroup]) -> None:
        """Return when the subscriber has received this transition of each job group."""
        runs = {("job_group", str(job_group.id)) for job_group in job_groups}
        await eventually(
            lambda: not self._transitions.missing(word, runs),
            why=lambda: (
                f"{word} is missing for {len(self._transitions.missing(word, runs))}\n"
                f"{self.daemon.log[-3000:]}"
            ),
            within_seconds=_PATIENCE_SECONDS,
        )

    async def until_acknowledged(self, count: int) -> None:
        """Return when so many callbacks were answered 2xx."""
        await eventually(
            lambda: len(self.sender.acknowledged) >= count,
            why=lambda: f"{self.sender.refused}\n{self.daemon.log[-3000:]}",
        )

    async def until_ended(self) -> None:
        """Return when nothing runs in the workspace any more."""
        await eventually(
            lambda: not self.workspace.ledger.active(),
            why=lambda: f"still active: {len(self.workspace.ledger.active())}",
            within_seconds=_PATIENCE_SECONDS,
        )

    async def kill(self) -> None:
        """Kill the daemon, check its store, and start it again."""
        assert await self.daemon.end(signal.SIGKILL) == -signal.SIGKILL
        self.kills += 1
        acknowledged = self.sender.fingerprints
        left = store_copy.read(self.store)
        self._given_up_before = len(_forged(left.processed))
        assert left.lost(acknowledged) == set()
        assert left.ended <= left.received
        assert left.without_event(self.genuine()) == set()
        await self.daemon.start()

    async def reports_that_the_store_fails(self) -> bool:
        readiness = await self.daemon.face.readiness()
        return not readiness.checks["store"]["ok"]

    def genuine(self) -> set[str]:
        """Return the acknowledged runs that there are."""
        return {run_id for run_id, _ in self.sender.acknowledged if int(run_id) < FORGED_FROM}

    async def until_agreed(self) -> ReceivedEvents:
        """Return the received events when ledger and subscriber agree."""
        happened = ends_in(self.workspace.ledger, KINDS)

        def differences() -> str:
            received = self._transitions.ends()
            return (
                f"seed {self.seed}: {len(happened - received)} missing: "
                f"{sorted(happened - received)[:9]}, wrong: {sorted(received - happened)[:9]}\n"
                f"{self.daemon.log[-3000:]}"
            )

        await eventually(
            lambda: self._transitions.ends() == happened,
            why=differences,
            within_seconds=_PATIENCE_SECONDS,
        )
        return self.subscriber.received()

    @property
    def lost(self) -> int:
        """Ends of the ledger that the subscriber has not received, plus lost callbacks."""
        missing = ends_in(self.workspace.ledger, KINDS) - self._transitions.ends()
        left = store_copy.read(self.store)
        return len(missing) + len(left.lost(self.sender.fingerprints))

    async def check(self) -> int:
        """Check every promise of the daemon; return how many events were received."""
        received = await self.until_agreed()
        assert received.ambiguous() == []
        assert received.out_of_order() == {}
        complete = {run for run, words in received.transitions().items() if ENDS & set(words)}
        assert complete == set(received.transitions())  # begun and invented: nothing ever ended it
        newest = store_copy.newest_position(self.store)
        await eventually(
            lambda: self._has_processed(newest),
            why=lambda: (
                f"behind {self._behind}, waiting {len(self._waiting)}\n{self.daemon.log[-6000:]}"
            ),
            within_seconds=_PATIENCE_SECONDS,
        )
        assert self._open_files() <= _FILES_BOUND
        assert await self.daemon.end() == 0
        left = store_copy.read(self.store)
        assert left.lost(self.sender.fingerprints) == set()
        assert left.without_event(self.genuine()) == set()
        assert not {fingerprint.split(":")[1] for fingerprint in left.waiting} & self.genuine()
        assert sorted(left.ended ^ left.received) == []
        assert SECRET not in self.daemon.log
        assert "Traceback" not in self.daemon.log
        return len(received.events)

    async def _has_processed(self, newest: int) -> bool:
        """True when consumers are past a position, and each callback is confirmed or given up.

        Not when nothing is left to do: job records of ended runs are still read, one by one.
        """
        positions = store_copy.positions(self.store)
        self._behind = {
            consumer: newest - positions[consumer]
            for consumer in ("mqtt", "metrics")
            if positions[consumer] < newest
        }
        self._waiting = store_copy.waiting(self.store)
        return not self._behind and not self._waiting and await self._counts_what_it_gave_up()

    async def _counts_what_it_gave_up(self) -> bool:
        """True when each forged callback was counted; a count begins with each life."""
        counted = await self.daemon.face.metric(
            "dataprep_monitor_observations_total", source="callback", outcome="unconfirmed"
        )
        gone = len(_forged(self.sender.fingerprints)) - self._given_up_before
        return (counted or 0.0) == gone

    def _open_files(self) -> int:
        return len(list(Path(f"/proc/{self.daemon.process_id}/fd").iterdir()))


def _forged(fingerprints: AbstractSet[str]) -> set[str]:
    """Return those about runs that were not started."""
    return {
        fingerprint for fingerprint in fingerprints if int(fingerprint.split(":")[1]) >= FORGED_FROM
    }


@contextlib.asynccontextmanager
async def scenario(
    folder: Path,
    *,
    seed: int,
    store: Path | None = None,
    traffic: TrafficSettings | None = None,
    speed: float = 1.0,
    options: WorldOptions | None = None,
    environment: Mapping[str, str] | None = None,
    database: str | None = None,
    alertmanager_url: str | None = None,
    channel_url: str | None = None,
) -> AsyncIterator[Scenario]:
    """Set everything up and yield it once the daemon follows the workspace."""
    workspace = Sandbox(
        SandboxSettings(
            seed=seed,
            work=WorkSettings(speed=speed, steps_per_job=2),
            traffic=traffic,
            schedules_fire=False,
            is_busy_at_once=False,
            options=options or WorldOptions(),
        ),
        SystemClock(),
    )
    async with (
        started(workspace) as url,
        keeping_broker(folder) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = CrashSettings(
            folder,
            Watched("acme", url, workspace.token),
            broker_url=broker.url,
            store=store or folder / "state.db",
            database=database,
            alertmanager_url=alertmanager_url,
            channel_url=channel_url,
        )
        async with daemon_process(settings, environment=environment) as daemon:
            await eventually(lambda: daemon.face.is_following("acme"), why="not followed")
            workspace.open_for_work()
            yield Scenario(workspace, broker, subscriber, daemon, settings, seed=seed)
