"""Packages that are refused: changed, damaged, too large, or something else altogether."""

from __future__ import annotations

import json
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.sandbox.http_workspace import Workspace, open_workspace
from tests.sandbox.packages import (
    changed,
    fetch,
    fingerprint,
    in_own_format,
    pages_of,
    send,
    tables_of,
    zipped,
)
from tests.sandbox.rich_flow import DRY_RUN, IMPORT, furnish, package_path


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """Give a workspace whose first flow has one of everything."""
    async with open_workspace() as opened:
        furnish(opened)
        yield opened


async def test_no_flow_gets_more_webhooks_than_it_may_have(workspace: Workspace) -> None:
    """The limit of the workspace holds for what is imported too."""
    out = await fetch(workspace, package_path(workspace))
    task = tables_of(out)["webhookflowtasks"][0]
    tasks = [{**task, "id": number} for number in range(1, 52)]

    answer = await send(workspace, IMPORT, changed(out, webhookflowtasks=tasks))

    assert answer.is_refused(400, "ValidationFailed", '"data"', "50 webhooks")
    assert (await send(workspace, IMPORT, changed(out, webhookflowtasks=tasks[1:]))).status == 201


@pytest.mark.parametrize(
    ("table", "change", "reason"),
    [
        ("wrangleddatasets", {"flow_id": 9}, "not whole"),
        ("wrangleddatasets", {"upstream_ids": [9]}, "not whole"),
        ("wrangleddatasets", {"flow_id": "1"}, "Expected `int`"),
        ("wrangleddatasets", {"name": None}, "cannot be read"),
        ("writesettings", {"path": 5}, "cannot be read"),
        ("writesettings", {"format": "docx"}, "format"),
        ("outputobjects", {"execution": "abacus"}, "execution"),
        ("webhookflowtasks", {"method": "brew"}, "method"),
        ("flows", {"folder_id": 3}, "not whole"),
        ("flows", {"failure_ratio": 10**30}, "cannot be kept"),
        ("flows", {"id": None}, "cannot be read"),
    ],
)
async def test_a_changed_package_is_validated(
    workspace: Workspace, table: str, change: dict[str, Any], reason: str
) -> None:
    """A package that could not have been exported is refused, and nothing of it stays."""
    out = await fetch(workspace, package_path(workspace))
    first, *others = tables_of(out)[table]
    before = fingerprint(workspace.world)

    for path in (IMPORT, DRY_RUN):
        answer = await send(
            workspace, path, changed(out, **{table: [{**first, **change}, *others]})
        )
        assert answer.is_refused(400, "ValidationFailed", '"data"', reason), answer.content

    assert fingerprint(workspace.world) == before


async def test_circles_and_twins_are_refused(workspace: Workspace) -> None:
    """Recipes that wait for each other would never run; two of one id are no table."""
    things = workspace.things
    out = await fetch(workspace, package_path(workspace))
    clean, totals, *others = tables_of(out)["wrangleddatasets"]
    circle = [{**clean, "upstream_ids": [things.totals.id]}, totals, *others]

    answer = await send(workspace, IMPORT, changed(out, wrangleddatasets=circle))
    twins = await send(workspace, IMPORT, changed(out, wrangleddatasets=[clean, totals, clean]))

    assert answer.is_refused(400, "ValidationFailed", '"data"', "circle")
    assert twins.is_refused(400, "ValidationFailed", '"data"', "two of")


async def test_other_files_are_refused(workspace: Workspace) -> None:
    """No ZIP, a ZIP of something else, another kind of package, too much in it: all are 400."""
    out = in_own_format(await fetch(workspace, package_path(workspace)))
    pages = pages_of(out)
    manifest = json.loads(pages["package.json"])
    zeros = bytes(70 * 1024 * 1024)
    wrong = {
        "no ZIP": b"PK but not really",
        "no package.json": zipped({"a.txt": b"hello"}),
        "cannot be read": zipped({"package.json": b"{"}),
        "kind plan": zipped({"package.json": json.dumps({**manifest, "kind": "plan"}).encode()}),
        "vendor": zipped({"package.json": json.dumps({**manifest, "format": "vendor"}).encode()}),
        "name its flows": zipped(
            {**pages, "package.json": json.dumps({**manifest, "roots": {}}).encode()}
        ),
        "has none": zipped({"package.json": pages["package.json"]}),
        "no package has": zipped({**pages, "data/people.json": b"[]"}),
        "unpacked": zipped({"package.json": zeros}),
        "values": zipped({**pages, "data/flows.json": b"[" + b"{}," * 1_000_001 + b"{}]"}),
        "20000 records": zipped({**pages, "data/flows.json": b"[" + b"{}," * 20_000 + b"{}]"}),
        "1000 files": zipped({f"{number}": b"" for number in range(1_001)}),
        "odd": zipped(pages, method=zipfile.ZIP_LZMA),
    }
    before = fingerprint(workspace.world)

    for reason, content in wrong.items():
        answer = await send(workspace, IMPORT, content)
        assert answer.is_refused(400, "ValidationFailed", '"data"', reason), answer.content

    assert fingerprint(workspace.world) == before
