"""Whatever arrives as a package, the workspace answers, and answers as the API does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.api.errors import ApiError
from monitor.sandbox.api.packages.archive import PackageKind
from monitor.sandbox.api.packages.arrivals import arrivals_of
from monitor.sandbox.api.packages.flow_reading import read_package
from monitor.sandbox.api.packages.importing import answer_of, bring_in, refuse_invalid
from monitor.sandbox.api.resources import RESOURCES
from monitor.sandbox.api.response.kinds import View
from tests.sandbox.packages import changed, fingerprint, tables_of
from tests.sandbox.samples.packages import flow_package
from tests.sandbox.samples.sample import Living
from tests.sandbox.samples.table import open_living
from tests.sandbox.vendor_packages import archived, newer, older

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def living() -> Iterator[Living]:
    """Give a world with one of everything; no test of this module changes it."""
    with asyncio.Runner() as runner:
        opened = open_living()
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


def refusal_of(living: Living, content: bytes) -> str:
    """Do what a dry run does; return why not, or nothing where it went well."""
    world, person = living.workspace.world, living.things.owner
    try:
        view = View(world, person, RESOURCES)
        arrivals = arrivals_of(read_package(content, PackageKind.FLOW), view)
        view = View(world.scratch_copy(), person, RESOURCES)
        imported = bring_in(view, arrivals, folder_id=None)
        refuse_invalid(view, imported)
        msgspec.json.encode(answer_of(view, imported))
    except ApiError as refusal:
        return f"{refusal.status} {refusal.details}"
    return ""


def is_proper(refusal: str) -> bool:
    return not refusal or refusal.startswith('400 "data" ')


@given(st.binary(max_size=200))
def test_bytes_are_no_package(living: Living, content: bytes) -> None:
    """Any bytes are refused by name."""
    assert refusal_of(living, content).startswith('400 "data" ')


@given(st.data())
def test_a_damaged_package_is_refused_or_imported(living: Living, data: st.DataObject) -> None:
    """Bytes that were changed on the way do not get past the reading of the ZIP."""
    content = bytearray(flow_package(living))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)))
    damaged = bytes(content[:end] if data.draw(st.booleans()) else content)
    assert is_proper(refusal_of(living, damaged))


@given(st.data())
def test_any_json_in_a_package_is_validated(living: Living, data: st.DataObject) -> None:
    """One value anywhere in a table may be anything at all, and the world stays as it is."""
    content = flow_package(living)
    before = fingerprint(living.workspace.world)
    tables: dict[str, Any] = {name: rows for name, rows in tables_of(content).items() if rows}
    name = data.draw(st.sampled_from(sorted(tables)))
    row = data.draw(st.sampled_from(tables[name]))
    if data.draw(st.booleans()):
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(JSON)
    else:
        tables[name] = data.draw(JSON)

    assert is_proper(refusal_of(living, changed(content, **tables)))
    assert fingerprint(living.workspace.world) == before


@given(st.data())
def test_any_json_in_a_document_is_validated(living: Living, data: st.DataObject) -> None:
    """One value anywhere in a document of either format may be anything at all."""
    document: Any = data.draw(st.sampled_from([newer, older]))()
    place = document["data"]
    for _ in range(data.draw(st.integers(0, 9))):
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        inner = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
        if inner:
            place = place[data.draw(st.sampled_from(inner))]
    keys = sorted(place) if isinstance(place, dict) else range(len(place))
    place[data.draw(st.sampled_from(keys))] = data.draw(JSON)

    assert is_proper(refusal_of(living, archived(document)))


@pytest.mark.parametrize("edit", [True, 2**63, "text", []])
def test_parameters_of_another_form_are_refused_by_their_place(
    living: Living, edit: object
) -> None:
    """A parameter whose inside is no object is refused, and the answer says where."""
    document = newer()
    source = document["data"]["flows"][0]["datasources"][0]
    source["runParameters"] = [{"id": 1, "runParameterEdit": edit}]
    assert "datasources[0].runParameters[0].runParameterEdit" in refusal_of(
        living, archived(document)
    )


def test_files_beside_the_document_are_kept_up_to_a_size(living: Living) -> None:
    """A small archive may hold much; what has no place here must not fill the memory."""
    files = {"notes.txt": b" " * 600_000}
    assert refusal_of(living, archived(newer(), files=files)) == ""
    files["more.txt"] = files["notes.txt"]
    assert "1,048,576 bytes" in refusal_of(living, archived(newer(), files=files))
