"""Whatever is answered to the reads besides runs is understood or refused, never anything else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.model.clock import SystemClock
from monitor.model.errors import UnreadableAnswerError
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.inventory_reads import ProfileCounts
from monitor.workspace.settings import WorkspaceSettings
from tests.clocks import ManualClock
from tests.polling.tiny_workspace import TinyWorkspace

DAY = date(2026, 11, 21)
USAGE = "usages/jobMetrics/compute/from/2026-11-21/to/2026-11-21"
READS: dict[str, Callable[[WorkspaceClient], Awaitable[object]]] = {
    "flows/count": lambda client: client.inventory.count("countFlows"),
    "connections/7/status": lambda client: client.inventory.connection_status("7"),
    "workspaces/current/configuration": lambda client: client.inventory.configuration(),
    "workspaces/current/configuration-schema": lambda client: (
        client.inventory.configuration_schema()
    ),
    USAGE: lambda client: client.inventory.compute_usage(DAY, DAY),
    "jobGroups/7/profileResults": lambda client: client.inventory.profile("7"),
}
KEYS = st.sampled_from(
    ["count", "all", "data", "result", "profilerTypeCheckHistograms", "key", "VALID", "EMPTY", "x"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
async def workspace() -> AsyncIterator[TinyWorkspace]:
    tiny = TinyWorkspace(ManualClock())
    await tiny.start()
    yield tiny
    await tiny.stop()


@pytest.fixture
async def client(workspace: TinyWorkspace) -> AsyncIterator[WorkspaceClient]:
    made = WorkspaceClient(
        WorkspaceSettings(
            name="acme", url=workspace.url, requests_per_minute=60_000_000, retries=0
        ),
        clock=SystemClock(),
        registry=CollectorRegistry(),
    )
    yield made
    await made.close()


@pytest.mark.parametrize("path", sorted(READS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=ANYTHING)
async def test_any_answer_is_read_or_refused(
    workspace: TinyWorkspace, client: WorkspaceClient, path: str, body: Any
) -> None:
    """An odd answer fails its own reading, and by no other error than this one."""
    workspace.documents[path] = body
    with suppress(UnreadableAnswerError):
        await READS[path](client)
    assert workspace.requests[-1][0] == path


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"count": 3}, 3),
        ({"count": {"all": 9, "owned": 4}}, 9),
        ({"count": {"files": 2, "tables": 3, "note": "x", "isWhole": True}}, 5),
    ],
)
async def test_a_count_is_a_number_or_the_sum_of_its_parts(
    workspace: TinyWorkspace, client: WorkspaceClient, body: object, count: int
) -> None:
    """Where the whole is served, it is not added up."""
    workspace.documents["flows/count"] = body
    assert await client.inventory.count("countFlows") == count


@pytest.mark.parametrize(
    "column",
    [
        [{"key": "VALID", "count": 5}, {"key": "EMPTY", "count": 1}, {"key": "NEW", "count": 9}],
        {"VALID": 5, "EMPTY": 1, "NEW": 9},
    ],
)
async def test_a_profile_counts_by_the_words_that_are_known(
    workspace: TinyWorkspace, client: WorkspaceClient, column: object
) -> None:
    """In either form of a histogram; another word is none of the three."""
    profile = {"profilerTypeCheckHistograms": {"a": column, "b": column}}
    workspace.documents["jobGroups/7/profileResults"] = msgspec.to_builtins(profile)
    assert await client.inventory.profile("7") == ProfileCounts(valid=10, mismatched=0, missing=2)
