"""A silence of nearly everything: a running daemon says so wherever its state is shown."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually

SILENCE = {"author": "the CEO", "comment": "quiet, please", "for_seconds": 3_600}


async def silenced(face: Face, *matchers: str, **changed: object) -> aiohttp.ClientResponse:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{face.url}/api/v1/silences", json={**SILENCE, "matchers": matchers, **changed}
        ) as answer,
    ):
        await answer.read()
        return answer


async def pipelines(face: Face) -> int:
    return int((await face.json("/api/v1/status"))["pipelines"])


@pytest.mark.parametrize("matcher", ["workspace=acme", "pipeline=*", "severity=critical"])
async def test_a_daemon_says_that_everything_is_silenced(tmp_path: Path, matcher: str) -> None:
    """Sentence, title, notice, readiness and metrics say it while it lasts, and not before."""
    workspace: Sandbox = fixture.sandbox()
    async with fixture.started(workspace) as url:
        followed = fixture.workspace_configuration(workspace, url)
        async with fixture.daemon(fixture.configuration(tmp_path, followed)) as face:

            async def is_known() -> bool:
                known = await face.metric("dataprep_monitor_known_pipelines", workspace="acme")
                return bool(known) and known == await pipelines(face)

            await eventually(is_known, why="no pipeline is known")
            before = await face.json("/api/v1/status")
            page = await face.text("/", Accept="text/html")
            assert before["silenced"] is None
            assert 'id="silenced"' not in page
            assert (await face.readiness()).checks["silences"]["detail"] == "none is active"
            assert (await silenced(face, matcher, for_seconds=31 * 86_400.0)).status == 400
            assert (await silenced(face, matcher)).status == 201

            async def is_said() -> bool:
                return (await face.json("/api/v1/status"))["silenced"] is not None

            await eventually(is_said, why="the status does not say it")
            status = await face.json("/api/v1/status")
            count = status["pipelines"]
            words = f"{count} of {count} pipelines are silenced (all of acme)"
            page = await face.text("/alerts", Accept="text/html")
            readiness = await face.readiness()
            assert status["silenced"] == words
            assert words in status["sentence"]
            assert words in status["short"]
            assert status["level"] != "ok"
            assert words in page.partition("<title>")[2].partition("</title>")[0]
            assert 'id="silenced"' in page
            assert words in readiness.checks["silences"]["detail"]
            assert readiness.checks["silences"]["ok"] is True
            assert (
                await face.metric("dataprep_monitor_silenced_pipelines", workspace="acme") == count
            )
