"""What the files of the store have of a log-in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.web.form_client import Browser
from tests.web.people import ENTRIES, PEOPLE, log_in, token_of
from tests.web.site import Site

NAME = "operate-user"


def bytes_of_store(folder: Path) -> bytes:
    """Return what stands in its file and in those beside it."""
    return b"".join(path.read_bytes() for path in folder.glob("state.db*"))


@pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])
async def test_who_reads_the_store_can_log_in_nowhere(site: Site, tmp_path: Path) -> None:
    """Neither token, hash nor what the browser keeps is in it; the audit has the name."""
    browser = Browser(site)
    await log_in(browser, token_of(NAME))
    cookies = [cookie.value for cookie in browser.session.cookie_jar]
    await browser.close()
    stored = await asyncio.to_thread(bytes_of_store, tmp_path)

    hashes = [each.token_hash[0] for each in ENTRIES]
    secrets = [token_of(NAME), token_of(NAME).partition(".")[2], *hashes, *cookies]
    secrets += [cookie.partition(".")[2] for cookie in cookies if "." in cookie]
    assert len(cookies) == 2
    assert NAME.encode() in stored
    assert [secret for secret in secrets if secret.encode() in stored] == []
