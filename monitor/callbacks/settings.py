"""What can be set about callbacks: the listener of the daemon, and each workspace's own part."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from monitor.listening.settings import ConnectionLimits
from monitor.model.secrets import Secret


class SignatureMode(StrEnum):
    """What a signature that does not match leads to. The scheme itself is not published."""

    OFF = "off"  # not checked
    OBSERVE = "observe"  # counted and warned about; the callback is taken
    REQUIRE = "require"  # answered 401


class ListenerSettings(Struct, frozen=True, kw_only=True):
    """Where callbacks are listened for, and how much at once."""

    host: str = "127.0.0.1"
    port: int = 9877
    body_limit_bytes: int = 64 * 1024
    body_timeout_seconds: float = 10.0  # for a sender to send its body
    in_flight_limit: int = 1_000  # callbacks in work at once; more are answered 503
    commit_timeout_seconds: float = 10.0
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks that may name the sender
    connections: ConnectionLimits = ConnectionLimits()
    wrong_secret_delay_seconds: float = 1.0


class CallbackSettings(Struct, frozen=True, kw_only=True):
    """What one workspace sends its callbacks to, and how they are checked."""

    public_url: str | None = None  # how the workspace reaches the listener; None: no tasks of ours
    flows: tuple[str, ...] = ()  # ids or names of flows that get a task; "*" for all
    secret: Secret | None = None  # the primary control; without it every callback is refused
    signature: SignatureMode = SignatureMode.OBSERVE
    signing_secret: Secret | None = None  # None: tasks carry no key and nothing is verified
    inbox_bound: int = 50_000  # callbacks that may wait for their runs to be confirmed
    give_up_seconds: float = 86_400.0  # after which an unconfirmed callback is dropped
    verify_seconds: float = 900.0  # between two checks that our tasks still exist
    miss_after_seconds: float = 120.0  # after which a callback that should have come is missed
