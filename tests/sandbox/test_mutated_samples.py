"""Requests that nearly succeed: one value of a good request is another one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.catalogue.operations import Edition, operation
from tests.examples import examples
from tests.sandbox.http_workspace import Answer
from tests.sandbox.samples.sample import Living, Sample
from tests.sandbox.samples.table import SAMPLES, open_living

TEXTS = st.text(max_size=8) | st.sampled_from(
    ["-1", "0", "1", "1.5", "999999999999999999", "2026-11-21", "9999-12-31", "a@b.example", "x/y"]
)
VALUES: st.SearchStrategy[Any] = (
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(TEXTS, max_size=2)
    | st.dictionaries(TEXTS, TEXTS, max_size=2)
)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all values inside a body, and to the body itself."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [path, *(below for key, member in inner for below in paths_in(member, (*path, key)))]


def replaced(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a body in which one value is another."""
    if not path:
        return value
    changed = copy.deepcopy(body)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


async def call(living: Living, name: str, data: st.DataObject) -> Answer:
    """Send a sample in which one path value or one value of the body is another."""
    sample: Sample = SAMPLES[name]
    called = operation(name)
    path_values = list(sample.path(living))
    body = None if sample.body is None else sample.body(living)
    if path_values and (body is None or data.draw(st.booleans())):
        place = data.draw(st.integers(0, len(path_values) - 1))
        path_values[place] = data.draw(TEXTS.filter(bool))
    elif body is not None:
        body = replaced(body, data.draw(st.sampled_from(paths_in(body))), data.draw(VALUES))
    return await living.workspace.request(
        called.method, called.fill(*path_values), query=sample.query, body=body, token=sample.token
    )


@pytest.mark.parametrize("place", range(4))
@given(data=st.data())
@settings(max_examples=examples(6), suppress_health_check=list(HealthCheck))
async def test_one_other_value_is_served_or_refused(place: int, data: st.DataObject) -> None:
    """Each answer is below 500, and a refusal gives its reason in the envelope."""
    names = [name for name, sample in SAMPLES.items() if sample.upload is None][place::4]
    async with open_living(Edition.OPEN) as living:
        for name in data.draw(st.permutations(names)):
            answer = await call(living, name, data)
            assert answer.status < 500, (name, answer.content)
            if answer.status >= 400:
                assert answer.exception["details"], name
