"""What is not watched of a workspace, and why, as its page, JSON and the overview say it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from monitor.catalogue.operations import Edition
from monitor.config import WorkspaceConfiguration
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually

RUNS = ["job_group", "flow_run", "plan_run"]


def refused(configuration: WorkspaceConfiguration) -> WorkspaceConfiguration:
    """Return the settings with a token that the workspace does not know."""
    workspace = msgspec.structs.replace(configuration.workspace, token=Secret("expired"))
    return msgspec.structs.replace(configuration, workspace=workspace)


async def until_said(face: Face, words: str) -> None:
    """Wait until the list of workspaces gives these words as a reason."""
    rows: list[dict[str, object]] = []

    async def is_said() -> bool:
        rows[:] = (await face.json("/api/v1/workspaces"))["data"][0]["unwatched_because"]
        return any(words in str(row["reason"]) for row in rows)

    await eventually(is_said, why=lambda: f"said is {rows}")


@pytest.mark.parametrize(
    ("edition", "is_refused", "words", "unwatched"),
    [
        (Edition.RL, True, "nothing could be read yet: connect:", [*RUNS, "schedules"]),
        (Edition.PC, False, "edition PC lists no runs", [*RUNS, "schedules"]),
        (Edition.LE, False, "edition LE lists no runs", [*RUNS, "schedules"]),
    ],
)
async def test_a_workspace_that_never_was_watched_has_its_reason(
    tmp_path: Path, edition: Edition, words: str, unwatched: list[str], *, is_refused: bool
) -> None:
    """A token refused since the start, PC and LE: on the pages, in JSON and on the overview."""
    workspace: Sandbox = fixture.sandbox(edition)
    async with fixture.started(workspace) as url:
        configuration = fixture.workspace_configuration(workspace, url)
        configuration = refused(configuration) if is_refused else configuration
        async with fixture.daemon(fixture.configuration(tmp_path, configuration)) as face:
            await until_said(face, words)
            (row,) = (await face.json("/api/v1/workspaces"))["data"]
            assert row["unwatched"] == unwatched
            details = await face.json("/api/v1/workspaces/acme")
            assert details["unwatched_because"] == row["unwatched_because"]
            for page in ("/workspaces", "/workspaces/acme"):
                text = await face.text(page)
                assert words in text
                assert "Nothing: new runs" not in text

            async def is_on_the_overview() -> bool:
                return f"acme: {words}" in (await face.json("/api/v1/status"))["sentence"]

            await eventually(is_on_the_overview, why="the status line does not say it")
            assert [found["workspace"] for found in (await face.json("/api/v1/trouble"))["data"]]
            assert words in await face.text("/")


async def test_nothing_is_unwatched_where_all_can_be_read(tmp_path: Path) -> None:
    """A workspace of an edition that lists everything has nothing to say."""
    workspace = fixture.sandbox()
    async with fixture.started(workspace) as url:
        configuration = fixture.workspace_configuration(workspace, url)
        async with fixture.daemon(fixture.configuration(tmp_path, configuration)) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")

            async def all_is_watched() -> bool:
                (row,) = (await face.json("/api/v1/workspaces"))["data"]
                return (row["unwatched"], row["unwatched_because"]) == ([], [])

            await eventually(all_is_watched, why="something is not watched")
            assert (await face.json("/api/v1/status"))["limited"] == []
