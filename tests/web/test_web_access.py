"""Tokens, names and groups that let in, and those that do not any more."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.model.secrets import Secret
from monitor.web.principals import Role
from monitor.web.settings import ServerSettings
from tests.web.people import ENTRIES, PEOPLE, basic, bearer, entry, token_of
from tests.web.site import Site

FREE = ServerSettings(listen="127.0.0.1:0")


@pytest.fixture
def settings() -> ServerSettings:
    return PEOPLE


def with_access(*entries: object, **changes: object) -> ServerSettings:
    return msgspec.structs.replace(PEOPLE, access=entries, **changes)


async def test_a_token_is_accepted_until_it_expires(site: Site) -> None:
    """From its end on it is as any wrong one."""
    ends_at = site.clock.now() + timedelta(hours=1)
    site.server.reconfigure(with_access(entry("ada", Role.READ, expires_at=ends_at)))
    before = await site.get("/runs", headers=bearer(token_of("ada")))
    await site.clock.advance(3_600)
    after = await site.get("/runs", headers=bearer(token_of("ada")))

    assert (before.status, after.status) == (200, 401)


async def test_a_token_is_replaced_without_a_gap(site: Site) -> None:
    """Two hashes of one entry let both tokens in; a reload with one of them ends the other."""
    former, new = entry("ada", Role.READ), ENTRIES[1].token_hash
    both = msgspec.structs.replace(former, token_hash=(*former.token_hash, *new))
    site.server.reconfigure(with_access(both))
    while_both = await site.get("/runs", headers=bearer(token_of("ada")))
    site.server.reconfigure(with_access(msgspec.structs.replace(former, token_hash=new)))

    assert while_both.status == 200
    assert (await site.get("/runs", headers=bearer(token_of("ada")))).status == 401


async def test_the_token_of_the_server_is_an_admin(site: Site) -> None:
    """The single token and the password of former configurations may do everything."""
    one = Secret("the token of scripts")
    password = Secret("the password of people")
    site.server.reconfigure(
        msgspec.structs.replace(PEOPLE, token=one, username="operator", password=password)
    )
    by_token = await site.get("/runs", headers=bearer("the token of scripts"))
    by_password = await site.get("/runs", headers=basic("operator", "the password of people"))
    wrong = await site.get("/runs", headers=basic("operator", "the token of scripts"))

    assert (by_token.status, by_password.status, wrong.status) == (200, 200, 401)


async def test_a_reload_does_not_open_a_closed_server(site: Site) -> None:
    """Without any entry left no user is let in: the address of the start goes on to be ours."""
    site.server.reconfigure(FREE)

    assert (await site.get("/runs")).status == 401
    assert (await site.get("/metrics", headers={"Host": "monitor:9876"})).status == 401


@pytest.mark.parametrize("settings", [FREE], ids=["free"])
async def test_a_reload_closes_an_open_server(site: Site) -> None:
    """With the first entry all others need credentials from then on."""
    before = await site.get("/runs")
    site.server.reconfigure(PEOPLE)

    assert before.status == 200
    assert (await site.get("/runs")).status == 401
    assert (await site.get("/runs", headers=bearer(token_of("read-user")))).status == 200


async def test_a_group_of_a_trusted_proxy_gives_its_role(site: Site) -> None:
    """A user whom no entry names has the role of the first group that one does."""
    headers = {"X-Forwarded-User": "eve", "X-Forwarded-Groups": "staff, group-read-user"}
    reading = await site.get("/runs", headers=headers)
    without = await site.get("/runs", headers={**headers, "X-Forwarded-Groups": "staff"})

    assert (reading.status, without.status) == (200, 401)


async def test_a_trusted_proxy_that_names_no_user_lets_none_in(site: Site) -> None:
    """Groups without a name are of no user whom the audit could name."""
    headers = {"X-Forwarded-User": " ", "X-Forwarded-Groups": "group-read-user"}

    assert (await site.get("/runs", headers=headers)).status == 401


@pytest.mark.parametrize(
    "settings", [msgspec.structs.replace(PEOPLE, trusted_proxies=("192.0.2.7",))], ids=["elsewhere"]
)
async def test_a_header_from_an_untrusted_address_lets_no_user_in(site: Site) -> None:
    """A client that can send a header must not become the user that it names."""
    answer = await site.get("/runs", headers={"X-Forwarded-User": "admin-user@example.com"})

    assert answer.status == 403
    assert "trusted_proxies" in answer.text


async def test_two_names_from_a_proxy_are_refused(site: Site) -> None:
    """A client that adds its own name before the proxy's becomes neither."""
    headers = [
        ("X-Forwarded-User", "admin-user@example.com"),
        ("X-Forwarded-User", "read-user@example.com"),
    ]
    async with site.session.get(f"{site.url}/runs", headers=headers) as response:
        assert response.status == 400


async def test_strangers_learn_whether_all_is_well_and_no_more(site: Site) -> None:
    """Readiness names checks to those who are let in; a stranger gets ready or not ready."""
    stranger = await site.get("/readyz")
    reader = await site.get("/readyz", headers=bearer(token_of("metrics-user")))

    assert stranger.document == {"ready": True, "checks": {}}
    assert set(reader.document["checks"]) == {"store"}


@pytest.mark.parametrize("name", ["", "ada", "nemo", "read-user"])
async def test_a_wrong_token_gives_the_same_answer_for_every_name(site: Site, name: str) -> None:
    """Neither status nor text tells whether there is such a user."""
    answer = await site.get("/runs", headers=bearer(f"{name}.guess"))

    assert answer.status == 401
    assert name == "" or name not in answer.text


@pytest.mark.parametrize(("role", "parts"), [("read", 3), ("metrics", 2)])
async def test_who_only_scrapes_sees_no_state(site: Site, role: str, parts: int) -> None:
    """Neither the page about the own account nor that of a problem has it, in its title either."""
    headers = {"Accept": "text/html", **bearer(token_of(f"{role}-user"))}
    pages = [await site.get(path, headers=headers) for path in ("/account", "/static/x")]
    titles = [page.text.partition("<title>")[2].partition("</title>")[0] for page in pages]

    assert [page.status for page in pages] == [200, 404]
    assert [len(title.split(" · ")) for title in titles] == [parts] * 2
