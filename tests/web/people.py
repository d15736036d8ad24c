"""People and programs of every role, with their tokens, and each way in."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import argon2
import msgspec

from monitor.web.principals import Role
from monitor.web.settings import AccessEntry, ServerSettings
from tests.web.form_client import Browser
from tests.web.site import Site

# The cheapest there is: the tests compare hundreds of tokens.
_HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
WAYS = ("bearer", "basic", "session", "proxy")


def token_of(name: str) -> str:
    return f"{name}.secret-of-{name}"


def entry(name: str, role: Role, **changes: object) -> AccessEntry:
    """Return an entry that its token, its user name and a group let in."""
    made = AccessEntry(
        name=name,
        role=role,
        token_hash=(_HASHER.hash(token_of(name)),),
        users=(f"{name}@example.com",),
        groups=(f"group-{name}",),
    )
    return msgspec.structs.replace(made, **changes)


ENTRIES = tuple(entry(f"{role}-user", role) for role in Role)
# All of this machine is a proxy, so that a test may be one.
PEOPLE = ServerSettings(
    listen="127.0.0.1:0",
    access=ENTRIES,
    trusted_proxies=("127.0.0.1",),
    user_header="X-Forwarded-User",
    groups_header="X-Forwarded-Groups",
    writes_per_minute=1_000_000,
    wrong_credentials_delay_seconds=0,
)


def basic(username: str, password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def headers_of(site: Site, name: str, way: str) -> Mapping[str, str]:
    """Return what a client sends that is let in by one way."""
    match way:
        case "bearer":
            return bearer(token_of(name))
        case "basic":
            return basic(name, token_of(name).partition(".")[2])
        case "proxy":
            return {"X-Forwarded-User": f"{name}@example.com"}
        case _:
            browser = Browser(site)
            try:
                await log_in(browser, token_of(name))
                cookies = browser.session.cookie_jar
                return {"Cookie": "; ".join(f"{each.key}={each.value}" for each in cookies)}
            finally:
                await browser.close()


async def log_in(
    browser: Browser, secret: str, *, username: str = "", leads_to: str = "/", status: int = 303
) -> str:
    """Send the form, and return where it leads, or the page that says what is wrong."""
    token = await browser.token("/login")
    fields = {"username": username, "secret": secret, "next": leads_to, "token": token}
    reply = await browser.send("/login", fields)
    assert reply.status == status, reply.text
    return reply.leads_to or reply.text
