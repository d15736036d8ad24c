"""Who a request comes from, and what a proxy may say about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.listening.file_descriptors import connection_cap
from monitor.listening.settings import ConnectionLimits
from monitor.listening.sources import TrustedProxies
from tests.app.eventually import eventually
from tests.listening.floods import hall

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8:1::7"])


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "source"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # forged: the peer is no proxy of ours
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.66, 198.51.100.1"], "198.51.100.1"),  # the first is forged
        ("10.0.0.1", ["192.0.2.66", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["anonymous"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["198.51.100.1:55"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("2001:db8:1::7", ["[2001:db8:2::1]:55"], "2001:db8:2::/64"),
        ("2001:db8:1::8", ["198.51.100.1"], "2001:db8:1::/64"),
        ("fe80::1%eth0", [], "fe80::/64"),
    ],
)
def test_the_source_is_what_a_trusted_proxy_saw(
    peer: str, forwarded_for: list[str], source: str
) -> None:
    """The last address that is no proxy's counts; an IPv6 source is a whole network."""
    assert PROXIES.source(peer, forwarded_for) == source


@given(
    peer=st.ip_addresses().map(str),
    forwarded_for=st.lists(st.text(max_size=30) | st.ip_addresses().map(str), max_size=4),
)
def test_without_trusted_proxies_no_header_is_believed(peer: str, forwarded_for: list[str]) -> None:
    """Whatever a sender claims, its source is its address."""
    no_proxies = TrustedProxies([])
    assert no_proxies.source(peer, forwarded_for) == no_proxies.source(peer, [])


@pytest.mark.parametrize(
    ("descriptors", "cap"), [(64, 8), (256, 64), (1_024, 384), (65_536, 4_096)]
)
def test_the_cap_leaves_descriptors_to_others(descriptors: int, cap: int) -> None:
    """Both listeners at their caps leave a quarter of them to store, polls and outputs."""
    assert connection_cap(descriptors) == cap
    assert descriptors < 256 or descriptors - 2 * cap >= max(128, descriptors // 4)


async def test_a_proxy_has_no_cap_and_its_clients_have() -> None:
    """Of one forwarded source only so many requests are in work; others pass the same proxy."""
    limits = ConnectionLimits(total=60, per_source=5)
    async with hall(limits, trusted_proxies=("127.0.0.9",)) as front:
        proxied = await front.flood(20, "127.0.0.9")
        flooding = b"X-Forwarded-For: 192.0.2.1, 198.51.100.1\r\n"
        for client in proxied[:10]:  # bodies that do not come keep requests in work
            client.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" + flooding + b"\r\n"
            )
        await eventually(lambda: front.refused() == 5, why=front.refused)
        same = await proxied[10].get(headers=flooding)
        other = await proxied[11].get(headers=b"X-Forwarded-For: 198.51.100.2\r\n")

        assert same.startswith(b"HTTP/1.1 429 ")
        assert other.endswith(b"\r\n\r\n198.51.100.2")


async def test_a_forged_header_moves_no_cap() -> None:
    """A sender that is no trusted proxy cannot send as another, nor use up its places."""
    async with hall(ConnectionLimits(total=60, per_source=5), trusted_proxies=("::1",)) as front:
        client = await front.client("127.0.0.3")
        answer = await client.get(headers=b"X-Forwarded-For: 198.51.100.1\r\n")

        assert answer.endswith(b"\r\n\r\n127.0.0.3")
