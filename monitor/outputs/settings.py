"""The settings that outputs share, and the record that names those of each output."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from monitor.model.events import EventType
from monitor.model.outside import is_host, is_plain
from monitor.model.settings import Setting

_WEB_PORTS = {"http": 80, "https": 443}

AuthoritiesFile: TypeAlias = Annotated[
    str | None,
    Setting(
        "PEM file with certificate authorities to trust instead of the system's.",
        "/etc/ssl/certs/company-ca.pem",
        is_file=True,
    ),
]


class OutputRecord(Struct, frozen=True, kw_only=True):
    """One output. Its class loads when it is first used, with the libraries that it needs."""

    section: str  # of the configuration
    settings: type[Struct]  # of its table
    output: str  # ``module:class`` of the `EventOutput`
    receivers: Callable[[Any], list[str]]  # of a table, without what may be a secret
    types: Callable[[Any], frozenset[EventType]]  # of events that settings let it take
    is_one_each: bool = False  # an output for each receiver; otherwise one for all
    split: Callable[[Any], Sequence[Any]] = lambda settings: [settings]  # into those of each output
    # Makes the section's settings of those of its tables, where there may be several.
    gathered: Callable[[tuple[Any, ...]], Struct] | None = None
    # On in the reference; where it is off, summary, readiness and doctor say so.
    is_usual: bool = False

    def names(self, settings: Any) -> list[str]:
        """Return the names of the outputs that a table stands for, which are their consumers."""
        if not self.is_one_each:
            return [self.section]
        return [f"{self.section}:{receiver}" for receiver in self.receivers(settings)]

    def tables(self, settings: Any) -> list[tuple[str, Any]]:
        """Return the settings of each table, with its path in the file."""
        if self.gathered is None:
            return [(self.section, settings)]
        return [(f"{self.section}[{n}]", table) for n, table in enumerate(self.split(settings))]

    def by_name(self, settings: Any) -> Mapping[str, Any]:
        """Return the settings of each output that the section's settings stand for, by its name."""
        return {self.names(own)[0]: own for own in self.split(settings)}

    def load(self) -> Any:
        """Return the class of the output, a kind of `EventOutput`."""
        module, _, name = self.output.partition(":")
        return getattr(importlib.import_module(module), name)


class DeliverySettings(Struct, frozen=True, kw_only=True):
    """How one output works through the log of events. The settings of each output begin so."""

    window: int = 100  # events sent and not yet acknowledged
    uncommitted: int = 5_000  # events acknowledged whose position is not yet durable
    # The position is stored so late at most, if possible with a commit that others make anyway:
    # so much is sent again after a crash.
    commit_interval_seconds: float = 1.0
    stores_answers_at_once: bool = False  # for outputs to people: a crash repeats no page
    commit_timeout_seconds: float = 10.0
    wait_seconds: float = 5.0  # one wait for new events; then the log is read anyway
    backoff_base_seconds: float = 1.0  # the first wait after the receiver failed
    backoff_cap_seconds: float = 30.0
    # An event that fails this often while the receiver takes others, or that breaks the
    # connection this often when sent alone, becomes a dead letter: nothing blocks without end.
    attempts: int = 5


class ReceiverSettings(DeliverySettings, frozen=True, kw_only=True):
    """How an HTTP receiver is called. Redirects are never followed."""

    attempts: int = 10
    stores_answers_at_once: bool = True
    timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=300), Setting("Timeout for one request with its response.")
    ] = 10.0
    ca_file: AuthoritiesFile = None
    verify_tls: Annotated[bool, Setting("Verify the receiver's certificate.")] = True


def receiver_of(url: str) -> str:
    """Return host, port and path of a usable URL: what identifies a receiver."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or _WEB_PORTS[parts.scheme]}{parts.path.rstrip('/')}"


def url_problem(url: str) -> str | None:
    """Return why nothing can be posted to the URL; the sentence does not repeat it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "not a URL"
    if parts.scheme not in _WEB_PORTS:
        return "must begin with http:// or https://"
    if parts.username is not None or parts.password is not None:
        return "holds credentials; give them in a file of their own"
    if not is_plain(url) or not is_host(parts.hostname or ""):
        return "names no host that could be asked for"
    if port == 0:
        return "port 0 is none that a receiver can listen on"
    return "nothing may follow a #" if "#" in url else None
