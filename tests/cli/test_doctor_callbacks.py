"""``doctor`` reports whether callbacks arrive, and the state of the tasks that send them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import Struct

from monitor.callbacks.settings import CallbackSettings, ListenerSettings, SignatureMode
from monitor.catalogue.operations import Edition
from monitor.cli.doctor_checks.callbacks_address import callback_address
from monitor.config import WorkspaceConfiguration
from monitor.model.checks import CheckLine
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.processes import Settings, Watched, daemon_process
from tests.cli.doctor_scenario import other_server, run_checks, without_rights
from tests.servers import free_port


class Site(Struct, frozen=True, kw_only=True):
    """A workspace that calls back to a port of this machine that has no listener yet."""

    workspace: Sandbox
    acme: WorkspaceConfiguration
    port: int

    async def callbacks(self, folder: Path, *, public_port: int | None = None) -> CheckLine:
        """Return doctor's report on the callbacks, by way of a public port."""
        acme = self.acme
        if public_port is not None:
            assert acme.callbacks is not None
            public_url = f"http://127.0.0.1:{public_port}"
            settings = msgspec.structs.replace(acme.callbacks, public_url=public_url)
            acme = msgspec.structs.replace(acme, callbacks=settings)
        report = await run_checks(
            folder, acme, callbacks=ListenerSettings(listen=f"127.0.0.1:{self.port}")
        )
        return report["acme callbacks"]


@contextlib.asynccontextmanager
async def a_site(edition: Edition = Edition.RL) -> AsyncIterator[Site]:
    workspace, port = fixture.sandbox(edition), free_port()
    async with fixture.started(workspace) as url:
        acme = fixture.workspace_configuration(workspace, url, callbacks_port=port)
        yield Site(workspace=workspace, acme=acme, port=port)


async def test_without_a_daemon_doctor_itself_is_called(tmp_path: Path) -> None:
    """The workspace calls the public URL and reaches a listener with the right secret."""
    async with a_site() as site:
        line = await site.callbacks(tmp_path)
    assert (line.outcome, line.found.endswith("/hooks/acme and got 204")) == ("ok", True), line
    assert fixture.SECRET not in str(line)


async def test_a_public_url_that_leads_nowhere_fails(tmp_path: Path) -> None:
    """The workspace's result of the test call is reported with a hint."""
    async with a_site() as site:
        unanswered = await site.callbacks(tmp_path, public_port=free_port())
        async with other_server(404) as port:
            wrong = await site.callbacks(tmp_path, public_port=port)
    assert (unanswered.outcome, wrong.outcome) == ("failed", "failed")
    assert "failed its test call" in unanswered.found
    assert "it was answered 404" in wrong.found
    assert "route public_url to callbacks.listen" in str(wrong.hint)


async def test_without_a_listener_nothing_is_tried(tmp_path: Path) -> None:
    """While another process holds the address, no test call is made: one fault, one line."""
    async with a_site() as site, other_server(404) as port:
        report = await run_checks(
            tmp_path, site.acme, callbacks=ListenerSettings(listen=f"127.0.0.1:{port}")
        )
    assert report["callbacks address"].outcome == "failed"
    assert "acme callbacks" not in report


async def test_a_port_that_changes_cannot_be_called(tmp_path: Path) -> None:
    """A public URL cannot lead to a port that each start chooses."""
    async with a_site() as site:
        report = await run_checks(
            tmp_path, site.acme, callbacks=ListenerSettings(listen="127.0.0.1:0")
        )
    line = report["acme callbacks"]
    assert (line.outcome, "port 0" in line.found) == ("warning", True), line


async def test_an_edition_without_tasks_is_a_warning(tmp_path: Path) -> None:
    """Without test and tasks in the edition, the hint is to try by hand."""
    async with a_site(Edition.LE) as site:
        report = await run_checks(
            tmp_path, site.acme, callbacks=ListenerSettings(listen=f"127.0.0.1:{site.port}")
        )
    assert report["acme callbacks"].outcome == "warning"
    assert "answered 404, which is the listener" in str(report["acme callbacks"].hint)
    assert report["acme webhook tasks"].outcome == "warning"
    assert "by hand" in str(report["acme webhook tasks"].hint)


async def test_callbacks_made_by_hand_are_ok(tmp_path: Path) -> None:
    """Without a public URL no task is needed, and nothing can be tried."""
    async with a_site() as site:
        by_hand = msgspec.structs.replace(
            site.acme, callbacks=CallbackSettings(secret=Secret(fixture.SECRET))
        )
        report = await run_checks(
            tmp_path, by_hand, callbacks=ListenerSettings(listen=f"127.0.0.1:{site.port}")
        )
    assert report["acme callbacks"].found.startswith("accepted from webhook tasks made by hand")
    assert report["acme webhook tasks"].found.startswith("none are configured")


async def test_tasks_are_reported_as_the_daemon_keeps_them(tmp_path: Path) -> None:
    """A flow that is full of others' tasks is a warning with its reason; the rest is counted."""
    async with a_site() as site:
        world = site.workspace.world
        flows = list(world.flows.live())
        _fill(site.workspace, flows[0].id)
        settings = fixture.configuration(tmp_path, site.acme, callbacks_port=site.port)
        server = ServerSettings(listen=f"127.0.0.1:{free_port()}")
        async with fixture.daemon(msgspec.structs.replace(settings, server=server)) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")

            async def is_synchronised() -> bool:
                # A daemon that has not listed the flows yet refuses.
                return "data" in await face.post("/api/v1/webhooks", action="sync")

            await eventually(is_synchronised, why="the flows are not listed")
            report = await run_checks(
                tmp_path, site.acme, server=server, callbacks=settings.callbacks
            )
    assert report["server address"].found.endswith("held by our own daemon, which is alive")
    assert "accepts our callbacks" in report["callbacks address"].found
    assert report["acme callbacks"].outcome == "ok"
    line = report["acme webhook tasks"]
    assert line.outcome == "warning"
    assert line.found.startswith(f"1 over_limit, {len(flows) - 1} registered: the flow is full")


@contextlib.asynccontextmanager
async def two_monitors(
    folder: Path, **callbacks: Any
) -> AsyncIterator[tuple[WorkspaceConfiguration, ServerSettings, ListenerSettings]]:
    """A daemon with its store in ``folder``, and what a configuration of it would name."""
    server = ServerSettings(listen=f"127.0.0.1:{free_port()}")
    acme = msgspec.structs.replace(
        fixture.unreachable("acme"),
        callbacks=CallbackSettings(secret=Secret(fixture.SECRET), **callbacks),
    )
    settings = fixture.configuration(folder, acme, callbacks_port=free_port())
    assert settings.callbacks is not None
    async with fixture.daemon(msgspec.structs.replace(settings, server=server)):
        yield acme, server, settings.callbacks


async def test_another_daemon_is_not_taken_for_ours(tmp_path: Path) -> None:
    """It answers on both addresses and knows the secret, but it holds another store."""
    (tmp_path / "theirs").mkdir()
    for store in (tmp_path / "ours.db", tmp_path / "none.db"):
        async with two_monitors(tmp_path / "theirs") as (acme, server, callbacks):
            (tmp_path / "ours.db").touch()
            report = await run_checks(
                tmp_path, acme, server=server, callbacks=callbacks, store=store
            )
        for subject in ("server address", "callbacks address"):
            assert report[subject].outcome == "failed", report[subject]
            assert f"held by another monitor, whose store is not {store}" in report[subject].found
        assert "theirs" not in str(report), "the path of another's store is not shown"


async def test_our_daemon_is_known_by_its_store_however_that_is_named(tmp_path: Path) -> None:
    """A store that is reached by a symbolic link of its folder is the same store."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    async with two_monitors(tmp_path / "real") as (acme, server, callbacks):
        report = await run_checks(
            tmp_path, acme, server=server, callbacks=callbacks, store=tmp_path / "link" / "state.db"
        )
    assert report["server address"].found.endswith("held by our own daemon, which is alive")
    assert "accepts our callbacks" in report["callbacks address"].found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
async def test_a_store_that_is_hidden_leaves_it_open_whose_daemon_it_is(tmp_path: Path) -> None:
    """Where this user may not see the store, doctor says so instead of guessing."""
    acme = msgspec.structs.replace(
        fixture.unreachable("acme"), callbacks=CallbackSettings(secret=Secret(fixture.SECRET))
    )
    with tempfile.TemporaryDirectory() as name:  # which only its owner may enter
        watched = Watched("acme", "http://127.0.0.1:9", "t")
        settings = Settings(Path(name), watched, with_callbacks=True)
        # In a process of its own, which keeps its rights.
        async with daemon_process(settings):
            with without_rights():
                report = await run_checks(
                    tmp_path,
                    acme,
                    server=ServerSettings(listen=f"127.0.0.1:{settings.port}"),
                    callbacks=ListenerSettings(listen=f"127.0.0.1:{settings.callbacks_port or 0}"),
                    store=settings.folder / "state.db",
                )
    for subject in ("server address", "callbacks address"):
        assert report[subject].outcome == "warning", report[subject]
        assert "as the user that runs the daemon" in str(report[subject].hint)


async def test_a_required_signature_is_no_failure(tmp_path: Path) -> None:
    """With ``signature = "require"`` the daemon accepts doctor's call, which is signed."""
    signing = {"signature": SignatureMode.REQUIRE, "signing_secret": Secret("k" * 20)}
    async with two_monitors(tmp_path, **signing) as (acme, server, callbacks):
        report = await run_checks(tmp_path, acme, server=server, callbacks=callbacks)
    line = report["callbacks address"]
    assert (line.outcome, "accepts our callbacks" in line.found) == ("ok", True), line


async def test_a_required_signature_of_another_key_fails(tmp_path: Path) -> None:
    """The daemon runs with another key than the configuration names."""
    signing = {"signature": SignatureMode.REQUIRE, "signing_secret": Secret("k" * 20)}
    async with two_monitors(tmp_path, **signing) as (acme, server, callbacks):
        assert acme.callbacks is not None
        other = msgspec.structs.replace(acme.callbacks, signing_secret=Secret("o" * 20))
        changed = msgspec.structs.replace(acme, callbacks=other)
        report = await run_checks(tmp_path, changed, server=server, callbacks=callbacks)
    line = report["callbacks address"]
    assert (line.outcome, "with 401" in line.found) == ("failed", True), line
    assert "restart the daemon with this configuration" in str(line.hint)


async def test_a_workspace_that_signs_in_another_way_is_a_warning(tmp_path: Path) -> None:
    """The scheme is an assumption: what is called and refused is not unreachable."""
    async with a_site() as site, other_server(401) as port:
        assert site.acme.callbacks is not None
        signing = msgspec.structs.replace(
            site.acme.callbacks,
            public_url=f"http://127.0.0.1:{port}",
            signature=SignatureMode.REQUIRE,
            signing_secret=Secret("k" * 20),
        )
        acme = msgspec.structs.replace(site.acme, callbacks=signing)
        report = await run_checks(
            tmp_path, acme, callbacks=ListenerSettings(listen=f"127.0.0.1:{site.port}")
        )
    line = report["acme callbacks"]
    assert (line.outcome, "does not sign" in line.found) == ("warning", True), line
    assert "observe" in str(line.hint)


async def test_the_workspace_signs_what_doctor_requires(tmp_path: Path) -> None:
    """Without a daemon doctor listens, requires the signature too, and the workspace signs."""
    async with a_site() as site:
        assert site.acme.callbacks is not None
        signing = msgspec.structs.replace(
            site.acme.callbacks, signature=SignatureMode.REQUIRE, signing_secret=Secret("k" * 20)
        )
        acme = msgspec.structs.replace(site.acme, callbacks=signing)
        report = await run_checks(
            tmp_path, acme, callbacks=ListenerSettings(listen=f"127.0.0.1:{site.port}")
        )
    assert report["acme callbacks"].found.endswith("and got 204")


def _fill(workspace: Sandbox, flow_id: int) -> None:
    for number in range(50):
        workspace.world.create(
            WebhookFlowTask,
            by=1,
            name=f"another program's {number}",
            flow_id=flow_id,
            url="http://127.0.0.1:9/",
            method="post",
            trigger_event="onJobDone",
            trigger_object="any",
            body="{}",
            headers={},
            retry_on_failure=False,
        )


async def test_a_real_callback_is_answered_with_a_retry(tmp_path: Path) -> None:
    """While doctor listens in place of the daemon, nothing is accepted and then lost."""
    port = free_port()
    configuration = fixture.configuration(
        tmp_path,
        msgspec.structs.replace(
            fixture.unreachable("acme"), callbacks=CallbackSettings(secret=Secret(fixture.SECRET))
        ),
        callbacks_port=port,
    )
    async with (
        callback_address(configuration, clock=SystemClock()) as listening,
        aiohttp.ClientSession() as session,
        session.post(
            f"http://127.0.0.1:{port}/hooks/acme",
            json={"job_id": "7", "status": "Complete"},
            headers={"X-Monitor-Secret": fixture.SECRET},
        ) as answer,
    ):
        assert listening.is_answering
        assert (answer.status, answer.headers["Retry-After"]) == (429, "60")
