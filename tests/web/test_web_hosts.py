"""What a foreign web page can do with the server through a browser: nothing."""

from __future__ import annotations

import socket

import msgspec
import pytest
import structlog

from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.site import Site

NAMED = ServerSettings(listen="127.0.0.1:0", hosts=("Monitor.example.com", "münchen.example"))
TRACK = {"kind": "job_group", "id": "7"}
FOREIGN_HOSTS = (
    "evil.example",
    "evil.example:9876",
    "monitor.example.com",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "notlocalhost",
    "127.0.0.1@evil.example",
    "0x7f.1",
    "[::1",
    "[::1]x",
    "localhost:port",
    "",
    ".",
)
# What a browser sends with a request that a page of another origin makes.
FOREIGN_ORIGINS = (
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
    {"Origin": "about:blank"},
    {"Origin": "http://[::1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "Cross-Site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},
)
# Each method that changes something, on a route that takes it.
WRITES = [
    ("POST", "/api/v1/track"),
    ("POST", "/api/v1/webhooks"),
    ("POST", "/api/v1/silences"),
    ("DELETE", "/api/v1/silences/9"),
    ("POST", "/api/v1/replay"),
    ("POST", "/api/v1/dead-letters/resend"),
    ("POST", "/api/v1/dead-letters/drop"),
    ("PUT", "/api/v1/track"),
    ("PATCH", "/api/v1/track"),
]


@pytest.mark.parametrize("path", ["/", "/live", "/api/v1/runs", "/none"])
async def test_a_foreign_host_is_misdirected(site: Site, path: str) -> None:
    """A name that foreign DNS leads here, as in DNS rebinding, is answered 421."""
    answers = {host: await site.get(path, headers={"Host": host}) for host in FOREIGN_HOSTS}

    assert {host for host, answer in answers.items() if answer.status != 421} == set()
    types = {answer.headers["Content-Type"] for answer in answers.values()}
    assert types == {"application/problem+json"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_answers_under_any_name(site: Site, path: str) -> None:
    """An orchestrator may use any name of the machine, and learns that all is well, no names."""
    answer = await site.get(path, headers={"Host": "monitor:9876"})

    assert answer.status == 200
    assert "store" in (await site.get("/readyz")).document["checks"]
    if path == "/readyz":
        assert answer.document == {"ready": True, "checks": {}}


async def test_metrics_without_authentication_have_our_names_only(site: Site) -> None:
    """A rebinding page would read them as a scraper does; an address has no name to rebind."""
    assert (await site.get("/metrics", headers={"Host": "monitor:9876"})).status == 421
    assert (await site.get("/metrics")).status == 200


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(listen="127.0.0.1:0", token=Secret("a token for scripts")),
        ServerSettings(listen="127.0.0.1:0", allow_anonymous=True),
    ],
    ids=["token", "anonymous"],
)
async def test_metrics_answer_under_any_name_where_that_was_chosen(site: Site) -> None:
    """A scraper that authenticates, or that all may read like, uses any name of the machine."""
    headers = {"Host": "monitor:9876", "Authorization": "Bearer a token for scripts"}

    assert (await site.get("/metrics", headers=headers)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:1",
        "192.0.2.7:9876",
        "[::1]:9876",
        "[2001:db8::1]",
        "localhost",
        "LOCALHOST:9876",
        "localhost.:9876",
        "monitor.localhost",
    ],
)
async def test_addresses_and_loopback_names_are_ours(site: Site, host: str) -> None:
    """No foreign DNS can lead an address or a loopback name here."""
    assert (await site.get("/api/v1/runs", headers={"Host": host})).status == 200


@pytest.mark.parametrize("settings", [NAMED], ids=["named"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("monitor.example.com", 200),
        ("MONITOR.example.com.:443", 200),
        ("xn--mnchen-3ya.example", 200),
        ("example.com", 421),
        ("a.monitor.example.com", 421),
    ],
)
async def test_configured_names_are_ours(site: Site, host: str, status: int) -> None:
    """``[server] hosts`` names the server as browsers do, with any port; nothing below it."""
    assert (await site.get("/api/v1/runs", headers={"Host": host})).status == status


@pytest.mark.parametrize("settings", [ServerSettings(listen="localhost:0")], ids=["named"])
async def test_the_listen_address_is_ours(site: Site) -> None:
    """The name that the server listens on is its name."""
    site.url = site.url.replace("127.0.0.1", "localhost")
    assert (await site.get("/api/v1/runs")).status == 200


EVERYWHERE = ServerSettings(listen="0.0.0.0:0", allow_anonymous=True)


@pytest.mark.parametrize(
    ("settings", "says_so"),
    [
        (EVERYWHERE, True),
        (msgspec.structs.replace(EVERYWHERE, token=Secret("a token for scripts")), False),
        (ServerSettings(listen="127.0.0.1:0", allow_anonymous=True), False),
    ],
    ids=["everywhere", "token", "loopback"],
)
async def test_a_page_that_is_open_to_others_says_so(site: Site, *, says_so: bool) -> None:
    """Each page repeats that all who can reach its address may do everything, where that is so."""
    answer = await site.get("/runs", headers={"Authorization": "Bearer a token for scripts"})
    assert answer.status == 200
    assert ("(allow_anonymous)" in answer.text) == says_so


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (EVERYWHERE, 200),
        (msgspec.structs.replace(EVERYWHERE, hosts=("monitor.example.com",)), 421),
        (ServerSettings(listen="127.0.0.1:0"), 421),
    ],
    ids=["everywhere", "named", "loopback"],
)
async def test_the_name_of_the_machine_is_ours_where_our_own_links_have_it(
    site: Site, status: int
) -> None:
    """A server on all addresses without another name is linked to by that of its machine."""
    host = f"{socket.gethostname()}:9876"
    assert (await site.get("/runbooks", headers={"Host": host})).status == status


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_no_page_of_another_origin_writes(site: Site, method: str, path: str) -> None:
    """A write that a browser sends for another origin is 403, whatever its body is."""
    written = []
    for headers in FOREIGN_ORIGINS:
        async with site.session.request(
            method,
            site.url + path,
            data=b'{"kind":"job_group","id":"7"}',
            headers={**headers, "Content-Type": "application/json"},
        ) as response:
            if response.status != 403:
                written.append(headers)

    assert written == []
    assert site.requested == []


@pytest.mark.parametrize("settings", [NAMED], ids=["named"])
@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("monitor.example.com", "https://monitor.example.com", 202),
        ("monitor.example.com:443", "https://monitor.example.com", 202),
        ("monitor.example.com", "http://monitor.example.com:80", 202),
        ("127.0.0.1:9876", "https://monitor.example.com", 202),  # a proxy that renames the host
        ("127.0.0.1:9876", "https://monitor.example.com:8443", 403),
        ("127.0.0.1:9876", "http://127.0.0.1:9876", 202),
        ("127.0.0.1:9876", "http://localhost:9876", 403),
    ],
)
async def test_our_own_page_may_write(site: Site, host: str, origin: str, status: int) -> None:
    """The origin is ours where it is the host, or a configured name at its usual port."""
    headers = {"Host": host, "Origin": origin, "Sec-Fetch-Site": "same-origin"}
    assert (await site.post("/api/v1/track", json=TRACK, headers=headers)).status == status


async def test_scripts_write_without_the_headers_of_a_browser(site: Site) -> None:
    """Commands and curl send neither ``Origin`` nor ``Sec-Fetch-Site``."""
    assert (await site.post("/api/v1/track", json=TRACK)).status == 202


async def test_reads_of_another_origin_are_left_to_the_browser(site: Site) -> None:
    """A link on another page may open ours: reads change nothing, and no page can read them."""
    headers = {"Sec-Fetch-Site": "cross-site"}
    answer = await site.get("/", headers=headers)

    assert answer.status == 200
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_refusals_are_counted_and_logged_in_sum(site: Site) -> None:
    """Many refusals make one line a minute, with the number, and the sources."""
    with structlog.testing.capture_logs() as lines:
        for _ in range(50):
            await site.get("/", headers={"Host": "evil.example"})
        await site.logged(lines)
        for _ in range(50):
            await site.get("/", headers={"Host": "evil.example"})
        await site.clock.advance(60)
        await site.logged(lines, number=2)

    assert [line["event"] for line in lines] == ["requests refused"] * 2
    assert sum(line["count"] for line in lines) == 100
    assert {line["reason"] for line in lines} == {"foreign_host"}
    assert lines[0]["sources"] == {"127.0.0.1": lines[0]["count"]}
    assert site.refused("foreign_host") == 100
