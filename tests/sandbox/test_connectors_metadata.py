"""Tests of connector metadata: defaults, overrides, and both merged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.api.data.connections import defaults, merged
from tests.sandbox.fitting import faults
from tests.sandbox.http_workspace import Workspace, open_workspace

PATH = "/v4/connectorMetadata/postgres"
CHANGE = {"runtimeMetadata": {"limit": {"clause": "FETCH FIRST"}, "typeMap": []}}


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


async def test_overrides_lie_over_the_defaults(workspace: Workspace) -> None:
    """Objects are merged by their keys, lists replaced; the defaults themselves stay."""
    delivered = (await workspace.get(f"{PATH}/defaults")).body
    assert (await workspace.get(f"{PATH}/overrides")).body == {}

    made = await workspace.post(f"{PATH}/overrides", CHANGE)
    assert (made.status, made.content) == (201, b"")
    config = (await workspace.get(PATH)).body

    assert (await workspace.get(f"{PATH}/overrides")).body == CHANGE
    assert (await workspace.get(f"{PATH}/defaults")).body == delivered
    runtime = config["runtimeMetadata"]
    assert runtime["limit"] == {"clause": "FETCH FIRST", "position": "end"}
    assert runtime["typeMap"] == []
    assert runtime["pathMetadata"] == delivered["runtimeMetadata"]["pathMetadata"]
    assert config["connectionMetadata"] == delivered["connectionMetadata"]


async def test_overrides_add_up_until_they_are_deleted(workspace: Workspace) -> None:
    """A second change keeps the first; deleting them returns the defaults, however often."""
    await workspace.post(f"{PATH}/overrides", CHANGE)
    await workspace.post(f"{PATH}/overrides", {"publishMetadata": {"publishMethod": "direct"}})

    kept = (await workspace.get(f"{PATH}/overrides")).body
    assert kept == {**CHANGE, "publishMetadata": {"publishMethod": "direct"}}
    for _ in range(2):
        assert (await workspace.request("DELETE", f"{PATH}/overrides")).status == 204
    assert (await workspace.get(PATH)).body == (await workspace.get(f"{PATH}/defaults")).body


@pytest.mark.parametrize("suffix", ["", "/defaults", "/overrides"])
async def test_an_unknown_connector_is_not_found(workspace: Workspace, suffix: str) -> None:
    """A vendor without a connector is 404, by its name."""
    answer = await workspace.get(f"/v4/connectorMetadata/abacus{suffix}")
    assert answer.is_refused(404, "DataNotFoundException", "abacus")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (None, "runtimeMetadata"),
        ({}, "publishMetadata"),
        ([], "body"),
        ({"runtimeMetadata": 7}, "runtimeMetadata"),
        ({"publishMetadata": ["x"]}, "publishMetadata"),
    ],
)
async def test_bad_overrides_name_their_field(
    workspace: Workspace, body: object, named: str
) -> None:
    """An override that changes nothing, or is no object, is 400 and named."""
    answer = await workspace.post(f"{PATH}/overrides", body)
    assert answer.is_refused(400, "ValidationFailed", named)


@pytest.mark.parametrize("connector", sorted(defaults()))
async def test_every_connector_fits_its_model(workspace: Workspace, connector: str) -> None:
    """The delivered object has the public model's fields and words."""
    body = (await workspace.get(f"/v4/connectorMetadata/{connector}")).body
    assert faults(body, "ConnectorMetadataInfo", connector) == []
    assert body["connectionMetadata"]["name"] == connector


TREES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers() | st.lists(st.integers(), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=5,
    ),
)


@given(TREES, TREES)
def test_merging_keeps_every_change_and_nothing_twice(
    base: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Laid over once or twice a change has the same effect, and neither side is touched."""
    before = (repr(base), repr(changes))
    once = merged(base, changes)

    assert merged(once, changes) == once
    assert (repr(base), repr(changes)) == before
    assert once.keys() == base.keys() | changes.keys()
    assert all(once[key] == base[key] for key in base.keys() - changes.keys())
