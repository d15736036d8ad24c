"""The assumed scheme of signatures: made with one key, over one stamp and exactly one body."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.callbacks.callback_signature import Verifier
from monitor.model.secrets import Secret

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
KEY = "a key for signatures"
BODY = b'{"job_id":"9"}'


def signed(stamp: str, body: bytes, *, key: str = KEY) -> str:
    """Return the header of the scheme, by the library's one-step function."""
    digest = hmac.digest(key.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return f"t={stamp},sha256={digest.hex()}"


@given(key=st.text(max_size=80), bodies=st.lists(st.binary(max_size=5_000), max_size=4))
def test_a_verifier_accepts_what_its_key_signed_however_often(
    key: str, bodies: list[bytes]
) -> None:
    """No callback changes how the next one is verified, whatever their sizes."""
    verifier = Verifier(Secret(key))
    for body in [*bodies, *bodies]:
        header = signed(str(SECONDS), body, key=key)
        assert verifier.accepts(header, body, now=NOW)
        assert not verifier.accepts(header, body + b" ", now=NOW)


@given(key=st.text(max_size=80), body=st.binary(max_size=500))
def test_a_verifier_signs_as_the_scheme_says(key: str, body: bytes) -> None:
    """Its signature is what the scheme makes of the same second, key and body."""
    assert Verifier(Secret(key)).sign(body, now=NOW) == signed(str(SECONDS), body, key=key)


@pytest.mark.parametrize("factor", [1, 1_000])
@pytest.mark.parametrize("late_seconds", [300, -300, 301, -301])
def test_a_stamp_is_valid_for_five_minutes(factor: int, late_seconds: int) -> None:
    """Seconds and milliseconds are both understood, and an old callback cannot be sent again."""
    header = signed(str(SECONDS * factor), BODY)
    now = NOW + timedelta(seconds=late_seconds)

    is_accepted = Verifier(Secret(KEY)).accepts(header, BODY, now=now)
    assert is_accepted == (abs(late_seconds) <= 300)


def test_spelling_makes_no_difference_and_another_key_does() -> None:
    """Spaces and capitals are no reason to refuse; another key is."""
    stamp, digest = signed(str(SECONDS), BODY).split(",sha256=")
    verifier = Verifier(Secret(KEY))

    assert verifier.accepts(f"{stamp}, sha256={digest.upper()}", BODY, now=NOW)
    assert not verifier.accepts(signed(str(SECONDS), BODY, key="another"), BODY, now=NOW)
    assert not verifier.accepts(None, BODY, now=NOW)
