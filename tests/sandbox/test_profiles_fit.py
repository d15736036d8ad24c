"""Tests of what a run made: its rows, its profile, and the page about it."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.api.runs.job_results import CHARACTERS, LINES, one_page, result_lines
from monitor.sandbox.api.runs.profiles import columns_of, profile_of, rows_of
from monitor.sandbox.world.records.objects import ImportedDataset
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock
from tests.sandbox.fitting import faults
from tests.sandbox.http_workspace import Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


def run_of(world: World, *, recipe_id: int = 1, unfit_values: float = 0.0) -> JobGroup:
    return world.create(
        JobGroup,
        by=1,
        flow_id=1,
        recipe_id=recipe_id,
        status=NativeStatus.COMPLETE,
        unfit_values=unfit_values,
    )


@given(
    seed=st.integers(0, 2**32),
    before=st.integers(0, 3),
    recipe_id=st.integers(1, 50),
    unfit=st.floats(0, 1),
)
def test_histograms_fit_the_rows(seed: int, before: int, recipe_id: int, unfit: float) -> None:
    """In every column the checks sum to the run's rows, and the valid values to the valid ones."""
    world = World(clock=ManualClock(), seed=seed)
    for _ in range(before):
        run_of(world)
    run = run_of(world, recipe_id=recipe_id, unfit_values=unfit)

    profile = profile_of(world, run)

    rows = rows_of(world, run)
    assert rows > 0
    assert faults(profile, "JobGroupProfile", "profile") == []
    for name, checks in profile["profilerTypeCheckHistograms"].items():
        counts = {check["key"]: check["count"] for check in checks}
        assert counts.keys() == {"VALID", "INVALID", "EMPTY"}
        assert min(counts.values()) >= 0
        assert sum(counts.values()) == rows
        values = profile["profilerValidValueHistograms"][name]
        if "topk" in values:
            parts = [value["count"] for value in values["topk"]]
            assert (values["k"], values["ub"], values["c"]) == (len(parts), len(parts), sum(parts))
        else:
            parts = [bucket["b"] for bucket in values["buckets"]]
            quartiles = list(values["quartiles"].values())
            assert [values["min"], *quartiles, values["max"]] == sorted(
                [values["min"], *quartiles, values["max"]]
            )
        assert min(parts) >= 0
        assert sum(parts) == counts["VALID"]
        assert profile["columnTypes"][name]


def test_a_run_always_shows_the_same() -> None:
    """Read again, or in another world of the same seed, a run has the same profile."""
    worlds = [World(clock=ManualClock(), seed=4) for _ in range(2)]
    profiles = [profile_of(world, run_of(world)) for world in worlds for _ in range(2)]
    assert profiles[0] == profiles[2]
    assert profiles[1] == profiles[3]
    assert profiles[0] != profiles[1]
    assert profiles[0]["columnTypes"] == profiles[1]["columnTypes"]


@pytest.mark.parametrize(
    "status",
    [nativestatu for nativestatu in NativeStatus if nativestatu is not NativeStatus.COMPLETE],
)
def test_an_incomplete_run_made_no_rows(status: NativeStatus) -> None:
    """Only a complete run has made anything."""
    world = World(clock=ManualClock())
    run = run_of(world)
    run.status = status
    assert rows_of(world, run) == 0


async def test_both_profile_operations_agree(workspace: Workspace) -> None:
    """``profile`` and ``profileResults`` show the same of one run."""
    run = workspace.job_group(status=NativeStatus.COMPLETE, profiling=True)
    answers = [
        await workspace.get(f"/v4/jobGroups/{run.id}/{name}")
        for name in ("profile", "profileResults")
    ]
    assert answers[0].body == answers[1].body == profile_of(workspace.world, run)
    failed = workspace.job_group(status=NativeStatus.FAILED, profiling=True)
    refused = await workspace.get(f"/v4/jobGroups/{failed.id}/profileResults")
    assert refused.is_refused(400, "ProfilingDataNotFoundException", str(failed.id))


def text_of(content: bytes) -> str:
    """Return the text of a document that has one page."""
    reader = pypdf.PdfReader(io.BytesIO(content), strict=True)
    assert len(reader.pages) == 1
    return reader.pages[0].extract_text()


@pytest.mark.parametrize("status", list(NativeStatus))
async def test_a_page_shows_a_run_in_every_state(
    workspace: Workspace, status: NativeStatus
) -> None:
    """A reader opens it and finds one page with the run's names, times and rows."""
    run = workspace.job_group(status=status, profiling=True)

    answer = await workspace.get(f"/v4/jobGroups/{run.id}/pdfResults")

    assert answer.headers["Content-Type"] == "application/pdf"
    text = text_of(answer.content)
    assert f"job group {run.id}: {status.value}" in text
    assert "Recipe: Clean orders" in text
    assert "2026-11-21 10:00:00 UTC" in text
    assert f"Rows: {rows_of(workspace.world, run)}" in text
    is_complete = status is NativeStatus.COMPLETE
    assert ("gs://out/1201.csv" in text) is is_complete
    assert ("public.orders" in text) is is_complete
    columns = columns_of(workspace.world, run) if is_complete else []
    assert all(
        f"Column {column.name} ({column.type}): {column.valid} valid" in text for column in columns
    )
    assert len(result_lines(workspace.world, run)) <= LINES


def test_letters_of_western_europe_are_shown() -> None:
    """Umlauts and the letters of PDF's own language come out as they were."""
    text = text_of(one_page(["Überfällige (Rechnungen) \\ mañana", "日本 and more"]))
    assert "Überfällige (Rechnungen) \\ mañana" in text
    assert "?? and more" in text


@given(st.lists(st.text(max_size=200), max_size=60))
def test_any_text_makes_one_page(lines: list[str]) -> None:
    """Whatever recipes are called, and however much they write, a reader finds one page."""
    content = one_page(lines)
    text_of(content)
    shown = content.split(b"stream\n")[1].split(b"\nendstream")[0].count(b" Tj T*")
    assert shown == min(len(lines), LINES)
    assert CHARACTERS > 3


async def test_files_of_connections_and_queries_are_inputs(workspace: Workspace) -> None:
    """A file on a connection is shown by its address, a query with its text."""
    world, recipe = workspace.world, workspace.things.clean
    connection = next(world.connections.live())
    owner = workspace.things.owner.id
    file = world.create(
        ImportedDataset, by=owner, name="f", uri="sftp://h/f", connection_id=connection.id
    )
    queried = world.create(
        ImportedDataset, by=owner, name="q", connection_id=connection.id, raw=("select 1",)
    )
    world.update(recipe, dataset_ids=(file.id, queried.id))
    run = workspace.job_group(recipe)

    answer = await workspace.get(f"/v4/jobGroups/{run.id}/inputs")

    inputs = {dataset["name"]: dataset["inputs"][0] for dataset in answer.body["data"]}
    assert inputs["f"] == {"uri": "sftp://h/f", "fileType": "FILE"}
    assert inputs["q"]["query"] == ["select 1"]
    assert inputs["q"]["vendor"] == "postgres"
