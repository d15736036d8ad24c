"""Headers that no client of good will sends are answered, never with a failure of ours."""

from __future__ import annotations

import pytest

from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.site import Site

GUARDED = ServerSettings(
    listen="127.0.0.1:0",
    token=Secret("a token of théirs"),
    username="ops",
    password=Secret("pass"),
    wrong_credentials_delay_seconds=0,
)


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
@pytest.mark.parametrize(
    "credentials", ["Basic é", "Basic /w==", "Basic", "Bearer é", "Bearer \udcff", "é"]
)
async def test_credentials_that_are_no_text_are_refused(site: Site, credentials: str) -> None:
    """Bytes outside ASCII, in scheme or credentials, are a wrong password: 401."""
    answer = await site.get("/api/v1/runs", headers={"Authorization": credentials})

    assert answer.status == 401
    assert answer.document["status"] == 401
