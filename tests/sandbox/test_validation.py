"""Tests of holding bodies against models."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.api.errors import ApiError
from monitor.sandbox.api.models.models import models
from monitor.sandbox.api.request.bodies import check_body
from tests.sandbox.http_workspace import open_workspace

REQUESTS = sorted(name for name in models() if name.endswith("Request"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("model", "body", "detail"),
    [
        ("FolderCreateRequest", [], '"body" must be a JSON object'),
        ("FolderCreateRequest", {"name": 7}, '"name" must be a string'),
        ("SqlScriptCreateRequest", {}, "is required"),
        ("FlowUpdateRequest", {"folderId": 1.5}, '"folderId" must be an integer'),
        ("FlowRunRequest", {"overrides": {"a": 1}}, '"overrides.a" must be an object'),
        ("FlowRunRequest", {"wrangledDatasetIds": [1, True]}, '"wrangledDatasetIds[1]" must be'),
        ("FlowRunRequest", {"execution": "abacus"}, '"execution" must be one of [photon'),
        ("FlowUpdateRequest", {"name": 2**64}, "integer beyond"),
        ("FlowNotificationSettingsCreateRequest", {"flowId": None}, "is required"),
    ],
)
def test_a_refusal_names_the_field(model: str, body: Any, detail: str) -> None:
    """A wrong value is refused with the path of the first field that does not fit."""
    with pytest.raises(ApiError) as refused:
        check_body(model, body)
    assert refused.value.status == 400
    assert detail in refused.value.details


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("FlowUpdateRequest", {"folderId": "31", "unknown": object()}),
        ("FlowUpdateRequest", {"folderId": None}),
        ("FlowRunParameterOverrideCreateRequest", {"overrideKey": "k", "value": "8", "flowId": 1}),
    ],
)
def test_documents_as_clients_send_them_are_accepted(model: str, body: Any) -> None:
    """Digits, nulls, unknown fields and plain values are no mistakes."""
    assert check_body(model, body) == body


def test_an_absent_body_is_empty_where_nothing_is_required() -> None:
    """Only what requires a field needs a body."""
    assert check_body("FolderUpdateRequest", None) == {}


@given(model=st.sampled_from(REQUESTS), body=JSON)
def test_no_body_breaks_it(model: str, body: Any) -> None:
    """Any JSON is either accepted as it is or refused as the API refuses."""
    accepted = {} if body is None else body
    with contextlib.suppress(ApiError):
        accepted = check_body(model, body)
    assert accepted == ({} if body is None else body)


def test_deep_nests_are_refused() -> None:
    """A body of thousands of levels is refused without descending."""
    body: Any = {}
    for _ in range(5_000):
        body = {"settings": body}
    with pytest.raises(ApiError, match="levels"):
        check_body("FlowUpdateRequest", body)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"PK", "application/zip", 415),
        (b"[]", "application/json", 400),
        (b'{"name": "Sales"}', "application/json", 201),
        (b"x" * (1024 * 1024 + 1), "application/json", 413),
    ],
)
async def test_the_front_validates_bodies(content: bytes, kind: str, status: int) -> None:
    """The wrong type, shape or size never reaches a handler."""
    async with open_workspace() as workspace:
        answer = await workspace.request(
            "POST", "/v4/folders", content=io.BytesIO(content), headers={"Content-Type": kind}
        )
        assert answer.status == status
