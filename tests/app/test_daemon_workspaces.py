"""Several workspaces in one daemon, and what it does when the configuration changes."""

from __future__ import annotations

import signal
from pathlib import Path

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.processes import Settings, Watched, daemon_process
from tests.clocks import FastClock
from tests.servers import free_port

KINDS = fixture.kinds_of(Edition.RL)


async def test_a_workspace_that_is_down_holds_up_no_other(tmp_path: Path) -> None:
    """One is followed at once; the other is named as down, and followed once it is there."""
    clock, later_port = FastClock(), free_port()
    here = fixture.sandbox(seed=1, clock=clock)
    there = fixture.sandbox(Edition.PL, seed=2, clock=clock)
    async with (
        fixture.started(here) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path,
                fixture.workspace_configuration(here, url, name="here"),
                fixture.workspace_configuration(
                    there, f"http://127.0.0.1:{later_port}", name="there"
                ),
                broker_url=broker.url,
            ),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("here"), why="not followed")
        here.open_for_work()
        await fixture.until_ended(here, KINDS, at_least=1)
        await fixture.until_quiet(here)
        await fixture.until_agreed(here, KINDS, subscriber, face)
        up = "dataprep_workspace_up"
        assert await face.metric(up, workspace="here") == 1
        await eventually(lambda: face.shows(up, 0, workspace="there"), why="not shown as down")
        readiness = await face.readiness()
        assert readiness.status == 503
        assert "there" in readiness.checks["polls"]["detail"]
        assert "here" not in readiness.checks["polls"]["detail"].replace("there", "")
        assert subscriber.states("there/state")[-1] == "unreachable"

        async with fixture.started(there, port=later_port):
            await eventually(lambda: face.is_following("there"), why="not followed")
            assert await face.metric(up, workspace="there") == 1
            there.open_for_work()
            await fixture.until_ended(there, KINDS, at_least=1)
            await eventually(lambda: face.has_counted("there"), why="nothing was counted")
            assert (await face.readiness()).status == 200


async def test_a_reload_accepts_a_good_file_and_refuses_a_bad_one(tmp_path: Path) -> None:
    """SIGHUP: a bad file is reported and changes nothing; a good one adds a workspace."""
    one, two = fixture.sandbox(seed=1), fixture.sandbox(seed=2)
    successful = "dataprep_monitor_config_last_reload_successful"
    async with (
        fixture.started(one) as first_url,
        fixture.started(two) as second_url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        first, second = Watched("one", first_url, one.token), Watched("two", second_url, two.token)
        settings = Settings(tmp_path, first, broker_url=broker.url)
        async with daemon_process(settings) as daemon:
            face = daemon.face
            await eventually(lambda: face.is_following("one"), why="not followed")
            assert await face.metric(successful) == 1

            settings.path.write_text('[[workspaces]]\nname = "ONE"\nnonsense = 1\n')
            daemon.send_signal(signal.SIGHUP)
            await eventually(lambda: face.shows(successful, 0), why="the bad file was accepted")
            assert "configuration refused" in daemon.log
            one.open_for_work()
            await fixture.until_ended(one, KINDS, at_least=1)
            await eventually(lambda: face.has_counted("one"), why="no longer followed")

            settings.write(first, second)
            daemon.send_signal(signal.SIGHUP)
            await eventually(lambda: face.is_following("one", "two"), why="not followed")
            assert await face.metric(successful) == 1
            two.open_for_work()
            await fixture.until_ended(two, KINDS, at_least=1)
            await eventually(lambda: face.has_counted("two"), why="nothing was counted")

            settings.write(second)
            daemon.send_signal(signal.SIGHUP)
            await eventually(lambda: face.watches("two"), why="the first one is still watched")
            received = [["one"], ["one", "two"], ["two"]]
            await eventually(
                lambda: subscriber.values("bridge/monitor/info", "workspaces") == received,
                why=lambda: subscriber.values("bridge/monitor/info", "workspaces"),
            )
            assert await daemon.end() == 0
