"""What a token reports of itself is read; anything else reports nothing and harms nothing."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.cli.doctor_checks.access import TokenDetails, details_of
from monitor.model.secrets import Secret


def encoded(report: object) -> str:
    return base64.b64encode(json.dumps(report).encode()).decode()


def test_both_known_forms_are_read() -> None:
    """Base64 of JSON reports the token's id, a JWT its end."""
    plain = details_of(Secret(encoded({"tokenId": "7", "secret": "x"})))
    assert plain == TokenDetails(token_id="7")
    jwt = details_of(Secret(f"{encoded({})}.{encoded({'exp': 1_800_000_000})}.signature"))
    assert jwt.expires_at == datetime.fromtimestamp(1_800_000_000, UTC)


@pytest.mark.parametrize("end", [True, "soon", 1e300, float("nan"), -1e300, None, [1]])
def test_an_end_that_is_none_is_left_out(end: object) -> None:
    """A number that no calendar has, or no number at all, is no end."""
    assert details_of(Secret(encoded({"exp": end}))) == TokenDetails()


@given(st.text() | st.binary().map(lambda raw: base64.b64encode(raw).decode()))
def test_any_text_may_be_a_token(text: str) -> None:
    """Whatever a token looks like, reading it raises nothing."""
    assert isinstance(details_of(Secret(text)), TokenDetails)


@given(st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_json_may_be_in_a_token(report: object) -> None:
    """JSON that is not what it should be reports nothing."""
    assert details_of(Secret(encoded(report))) == TokenDetails()
