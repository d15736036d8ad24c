"""Settings of the server of page, metrics and admin API."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from monitor.listening.settings import AddressSettings, listen_address, split_address
from monitor.model.globs import parse_globs
from monitor.model.outside import is_host, is_loopback
from monitor.model.secrets import Secret
from monitor.model.settings import (
    Setting,
    StartSetting,
    hard_to_guess,
    not_empty,
    one_line,
    problems_of,
)
from monitor.web.principals import Role
from monitor.web.status_pages.settings import StatusPageSettings

# At most 128 characters of what a browser, a shell and a log line take as they are; no colon,
# which ends the user name of basic auth, and no dot, which ends the name in a token.
NAME = "^[A-Za-z0-9][A-Za-z0-9@_+-]{0,127}$"
_HASH = re.compile(
    r"\$argon2id\$v=19\$m=(?P<kibibytes>\d{1,9}),t=(?P<passes>\d{1,4}),p=(?P<lanes>\d{1,4})"
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{22,86}"
)
# Each wrong token costs this much: more would let guesses stop the daemon.
_MOST = {"kibibytes": 256 * 1024, "passes": 10, "lanes": 16}


def name_problem(name: str) -> str | None:
    """Return why this is no name of an entry; None where it is one."""
    if re.fullmatch(NAME, name) is None:
        return "use 1 to 128 of A-Z, a-z, 0-9, @, _, + and -, a letter or digit first"
    return None


def _hashes(texts: str | list[str]) -> str | None:
    for text in [texts] if isinstance(texts, str) else texts:
        found = _HASH.fullmatch(text)
        if found is None:
            return (
                "must be what dataprep-monitor access add prints, $argon2id$v=19$...; "
                "never the token itself"
            )
        if any(int(found[name]) > most for name, most in _MOST.items()):
            return "costs too much at each wrong token: at most m=262144, t=10, p=16"
    return None


# Of HTTP, or of the proxy about the connection: what is in them is no user.
_OTHER_HEADERS = frozenset(
    ("authorization", "cookie", "host", "origin", "x-forwarded-for", "x-forwarded-proto")
)
_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared only


def _host_names(names: list[str]) -> str | None:
    """Accept names alone: addresses are always served, and a port does not matter."""
    if all(is_host(name) and ":" not in name for name in names):
        return None
    return 'each must be a host name without scheme and port, such as "monitor.example.com"'


def _globs(texts: str | list[str]) -> str | None:
    # Without any, everything is seen: an empty list must not mean that by accident.
    return not_empty(texts) or problems_of(
        [[texts] if isinstance(texts, str) else texts], parse_globs
    )


def _header_name(name: str) -> str | None:
    if name.lower() in _OTHER_HEADERS:
        return "has another meaning; name a header that the proxy alone sets"
    if re.fullmatch(r"[A-Za-z0-9-]{1,100}", name):
        return None
    return 'must be the name of a header, such as "X-Forwarded-User"'


def _issuer(url: str) -> str | None:
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    )
    is_plain = url.isprintable() and not set(url) & set(" ?#@")
    if is_safe and parts.hostname and is_plain:
        return None
    return 'must be such as "https://login.example.com/realms/data"'


def _public_url(url: str) -> str | None:
    parts = urlsplit(url)
    is_plain = url.isprintable() and not set(url) & set(" ?#@")
    if parts.scheme in ("http", "https") and parts.hostname and is_plain:
        return None
    return 'must be such as "https://monitor.example.com", without credentials, query and "#"'


class AccessEntry(Struct, frozen=True, kw_only=True):
    """One person or program that may reach page, metrics and API. Repeat the table for each.

    It is recognised by a token, by its user name at a trusted proxy, in a client certificate or at
    an OpenID provider, or by a group that one of these names. The first entry that fits counts.
    """

    name: Annotated[str, Meta(pattern=NAME), Setting("Its name.", "ada", check=name_problem)]
    role: Annotated[
        Role,
        Setting(
            "metrics: scrape; read: see everything; operate: also silence, acknowledge and track; "
            "admin: also webhooks, replays, dead letters, and the audit.",
            "read",
        ),
    ]
    token_hash: Annotated[
        tuple[str, ...],
        Setting(
            "Argon2id hash of its token, as dataprep-monitor access add prints it; a list while "
            "one replaces another.",
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$"
            "0123456789012345678901234567890123456789012",
            check=_hashes,
            may_be_single=True,
            is_hidden=True,
        ),
    ] = ()
    users: Annotated[
        tuple[str, ...],
        Setting(
            "Its names at a trusted proxy, an OpenID provider, or in a client certificate.",
            ["ada@example.com"],
            check=not_empty,
            may_be_single=True,
        ),
    ] = ()
    groups: Annotated[
        tuple[str, ...],
        Setting(
            "Groups whose members it stands for, as an OpenID provider or a trusted proxy names "
            "them.",
            ["data-operations"],
            check=not_empty,
            may_be_single=True,
        ),
    ] = ()
    workspaces: Annotated[
        tuple[str, ...],
        Setting(
            "Globs of the workspaces that it sees; of others nothing is shown or counted, nor of "
            "the daemon. Without them, everything.",
            ["finance*"],
            check=_globs,
            may_be_single=True,
        ),
    ] = ()
    expires_at: Annotated[
        datetime | None,
        Setting("When it stops being accepted.", datetime(2027, 1, 31, 18, tzinfo=UTC)),
    ] = None

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        if self.token_hash or self.users or self.groups:
            return []
        return ["token_hash: nothing recognises it; add token_hash, users or groups"]


class OidcSettings(Struct, frozen=True, kw_only=True):
    """Logging in on the page at an OpenID provider, by users and groups of [[access]].

    Needs the extra oidc. Register PUBLIC_URL/login/oidc/callback at the provider; without
    public_url in [server] it is that of the listen address.
    """

    issuer: Annotated[
        str,
        Setting(
            "Issuer, as its discovery document names it; https, or this machine.",
            "https://login.example.com/realms/data",
            check=_issuer,
        ),
    ]
    client_id: Annotated[
        str, Setting("Client id of this daemon at the provider.", "dataprep-monitor", one_line)
    ]
    client_secret: Annotated[
        Secret | None,
        Setting("Client secret, if the provider gave one.", "dataprep-oidc"),
    ] = None
    scopes: Annotated[
        tuple[str, ...],
        Setting("Scopes to ask for.", check=not_empty),
    ] = ("openid", "profile", "email")
    user_claim: Annotated[
        str, Setting("Claim of the ID token with the name that users has.", check=one_line)
    ] = "email"
    groups_claim: Annotated[
        str, Setting("Claim of the ID token with the groups.", check=one_line)
    ] = "groups"
    ca_file: Annotated[
        str | None,
        Setting(
            "PEM file of authorities to trust for it, instead of the usual ones.",
            "/etc/ssl/certs/company-ca.pem",
            is_file=True,
        ),
    ] = None

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        if all(find_spec(library) for library in ("authlib", "joserfc", "requests")):
            return []
        return ["issuer: needs its libraries; install dataprep-monitor[oidc]"]


class ServerSettings(AddressSettings, frozen=True, kw_only=True):
    """The page, the metrics and the admin API."""

    listen: Annotated[
        str,
        StartSetting(
            "HOST:PORT. Outside loopback it needs [[access]], a token or a password.",
            check=listen_address,
        ),
    ] = "127.0.0.1:9876"
    probe_listen: Annotated[
        str | None,
        StartSetting(
            "HOST:PORT of a second socket that answers /healthz and /readyz alone, in plain HTTP: "
            "probes of an orchestrator find it free, whatever clients do to the other one.",
            "0.0.0.0:9879",
            listen_address,
        ),
    ] = None
    token: Annotated[
        Secret | None,
        Setting(
            "Bearer token that clients must send as Authorization: Bearer; 16 characters or more.",
            "dataprep-monitor-token",
            hard_to_guess(16),
        ),
    ] = None
    username: Annotated[
        str | None,
        Setting(
            "User name of basic auth, for browsers; needs the password.", "operator", check=one_line
        ),
    ] = None
    password: Annotated[
        Secret | None,
        Setting(
            "Password of basic auth, 12 characters or more; needs the username.",
            "dataprep-monitor-password",
            hard_to_guess(12),
        ),
    ] = None
    user_header: Annotated[
        str | None,
        StartSetting(
            "Header in which a proxy of trusted_proxies names who is logged in there; users of "
            "[[access]] has the names.",
            "X-Forwarded-User",
            check=_header_name,
        ),
    ] = None
    groups_header: Annotated[
        str | None,
        StartSetting(
            "Header in which it names the groups, with commas between.",
            "X-Forwarded-Groups",
            check=_header_name,
        ),
    ] = None
    session_seconds: Annotated[
        float,
        Meta(ge=60, le=31_536_000),
        StartSetting("How long a log-in on the page lasts."),
    ] = 43_200.0
    oidc: OidcSettings | None = None
    access: tuple[AccessEntry, ...] = ()  # [[access]], which stands beside the section
    status_pages: tuple[StatusPageSettings, ...] = ()  # [[status_pages]] likewise
    allow_anonymous: Annotated[
        bool, StartSetting("Allow access without authentication; for trusted networks only.")
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        StartSetting(
            "Names under which browsers and scripts reach the server, beside its listen "
            "address, IP addresses and localhost; without any, and listening on all addresses, "
            "the name of this machine too. A request for another name is answered 421; /healthz "
            "and /readyz answer under any, and /metrics where requests authenticate.",
            check=_host_names,
        ),
    ] = ()
    public_url: Annotated[
        str | None,
        StartSetting(
            "Where people reach the page, for the links in messages and alerts; without it, the "
            "listen address.",
            "https://monitor.example.com",
            _public_url,
        ),
    ] = None
    hsts_seconds: Annotated[
        int,
        Meta(ge=0, le=63_072_000),
        StartSetting(
            "How long browsers that were answered over TLS use no plain HTTP for this host name, "
            "on whatever port (HSTS); 0 switches that off."
        ),
    ] = 2_592_000
    actions: Annotated[bool, StartSetting("Let role operate run again and cancel runs.")] = False
    body_timeout_seconds: float = 10.0  # for a client to send a body
    wrong_credentials_delay_seconds: float = 1.0
    writes_per_minute: int = 60  # of one source, and of one user; and so many at once
    read_cost_per_minute: int = 6_000  # of one source; see `read_limits`
    stale_after_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        StartSetting("An active run that was not confirmed within this time is shown as unknown."),
    ] = 600.0

    @property
    def has_auth(self) -> bool:
        """True if requests must authenticate."""
        return self.password is not None or self.has_login

    @property
    def has_login(self) -> bool:
        """True if the page has a form to log in: else a browser asks for the password itself."""
        is_token_alone = self.token is not None and self.password is None
        return is_token_alone or bool(self.access) or self.oidc is not None

    @property
    def is_open(self) -> bool:
        """True if others than this machine may do everything, without authentication."""
        return not (self.has_auth or is_loopback(self.host))

    @property
    def page_host(self) -> str:
        """The host in its own links: of all addresses the first of ``hosts``, or this machine."""
        if self.host not in _ANY_ADDRESS:
            return self.host
        return self.hosts[0] if self.hosts else socket.gethostname()

    @property
    def page_url(self) -> str | None:
        """Where other machines find the page; None where the port is not known yet."""
        host, port = self.page_host, split_address(self.listen)[1]
        if port == 0:
            return None
        return (
            f"{self.scheme}://[{host}]:{port}" if ":" in host else f"{self.scheme}://{host}:{port}"
        )

    @property
    def certified_names(self) -> list[str]:
        """The names under which clients reach the server itself: its certificate must have them.

        Behind trusted proxies, these have the certificate that clients see.
        """
        if self.trusted_proxies:
            return []
        public = None if self.public_url is None else urlsplit(self.public_url).hostname
        own = None if self.host in _ANY_ADDRESS or is_loopback(self.host) else self.host
        return list(dict.fromkeys(filter(None, (own, public, *self.hosts))))

    @property
    def linked_url(self) -> str | None:
        """Where links in messages lead; None where that is not known yet."""
        return self.page_url if self.public_url is None else self.public_url.rstrip("/")

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        problems: list[str] = []
        if self.username is not None and self.password is None:
            problems.append("username: has no password; add password_file")
        if self.password is not None and self.username is None:
            problems.append("username: is needed beside the password; add it")
        if self.user_header is not None and not self.trusted_proxies:
            problems.append("user_header: needs trusted_proxies, whose word it is; add them")
        if self.probe_listen is not None and split_address(self.probe_listen)[1] == self.port != 0:
            problems.append("probe_listen: has the port of listen; choose another")
        if self.groups_header is not None and self.user_header is None:
            problems.append("groups_header: needs user_header beside it; add it")
        if self.is_open and not self.allow_anonymous:
            problems.append(
                "listen: others can reach this address: add [[access]], or token_file, or username "
                "and password_file, or set allow_anonymous = true"
            )
        return problems
