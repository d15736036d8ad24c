"""The settings of the connection to one workspace."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from monitor.catalogue.operations import Edition
from monitor.model.outside import is_loopback, split_web_url
from monitor.model.secrets import Secret
from monitor.model.settings import Setting, one_line

_NAME = "^[a-z0-9][a-z0-9-]{0,62}$"
_RESERVED_NAMES = frozenset({"bridge"})  # a topic level of the daemon itself


def _name(name: str) -> str | None:
    if name in _RESERVED_NAMES:
        return "is reserved for the daemon's own topics; choose another name"
    if re.fullmatch(_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9 and -, not - first; it is a label and a topic level"
    return None


def _shard(name: str) -> str | None:
    if re.fullmatch(_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9 and -, not - first"
    return None


def _url(url: str) -> str | None:
    parts = split_web_url(url)
    if parts is None:
        return 'must be an http or https URL, such as "https://api.clouddataprep.com"'
    if parts.username is not None or parts.password is not None:
        return "must not hold credentials; give the token as token_file"
    if "?" in url or "#" in url:
        return "must end with host, port or path; remove the query or fragment"
    return None


def _token_url(url: str) -> str | None:
    parts = split_web_url(url)
    if parts is None:
        return 'must be an https URL, such as "https://pingauth.alteryxcloud.com/as/token"'
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        return "must begin with https://, since the refresh token travels there"
    if parts.username is not None or parts.password is not None:
        return "must not hold credentials; give client_id and client_secret"
    if "#" in url:
        return "must not have a fragment; remove it"
    return None


_PROFESSIONAL = "PC, or PL for a workspace made before release 9.5"
_OPEN_WORDS = (
    "enterprise", "designer cloud", "alteryx", "trifacta", "self managed", "self hosted",
    "on premise", "server", "all", "full",
)  # fmt: skip
# As the vendor's pages and people name editions.
_EDITION_WORDS = {
    "premium": "RL",
    "professional": _PROFESSIONAL,
    "pro": _PROFESSIONAL,
    "current": "PC",
    "legacy": "LE",
    "legacy professional": "PL",
    "professional legacy": "PL",
    "legacy premium": "RL",
    "premium legacy": "RL",
    "professional current": "PC",
    "detect": "auto",
    "any": "auto",
    "unknown": "auto",
    "standard": "auto",
    "starter": "auto",
    **dict.fromkeys(_OPEN_WORDS, "open"),
}


class OauthSettings(Struct, frozen=True, kw_only=True):
    """Access tokens that the daemon refreshes, in the place of token (Alteryx One).

    Each refresh makes the former refresh token invalid, so give the pair to no other program. The
    store holds the newest one, and is a secret then.
    """

    token_url: Annotated[
        str,
        Setting(
            "Token endpoint; https, or this machine.",
            "https://pingauth.alteryxcloud.com/as/token",
            _token_url,
        ),
    ]
    client_id: Annotated[
        str, Setting("Client id, as shown beside the token pair.", "af08ef5e", one_line)
    ]
    refresh_token: Annotated[
        Secret | None,
        Setting(
            "Refresh token of a new pair. It is used once; from then on the stored one is, until "
            "another one is given here. The place is read again every 30 seconds, but for a "
            "variable of the environment.",
            "dataprep-refresh-token",
            is_required=True,
        ),
    ] = None
    client_secret: Annotated[
        Secret | None,
        Setting("Client secret, if there is one.", "dataprep-client-secret"),
    ] = None
    scope: Annotated[
        str | None, Setting("Scope to ask for. Default: that of the pair.", "openid", one_line)
    ] = None
    expires_at: Annotated[
        datetime | None,
        Setting(
            "When the refresh token itself ends, as chosen when the pair was generated; the rule "
            "token_expiring warns of it. No answer shows it.",
            datetime(2027, 11, 23, tzinfo=UTC),
        ),
    ] = None


class WorkspaceSettings(Struct, frozen=True, kw_only=True):
    """One workspace. Repeat the table to watch several workspaces with one daemon."""

    name: Annotated[
        str,
        Meta(pattern=_NAME),
        Setting(
            "Label, topic level and path segment. Renaming it starts a new workspace.",
            "marketing",
            _name,
        ),
    ]
    url: Annotated[
        str,
        Setting(
            "Base URL of the API, with or without /v4 at its end.",
            "https://api.clouddataprep.com",
            _url,
        ),
    ]
    token: Annotated[
        Secret | None,
        Setting(
            "Access token. It shows what its owner can see, so use a user who can see everything. "
            "A file that changes is read again within a minute. [workspaces.oauth] may stand in "
            "its place.",
            "dataprep-token",
            is_required=True,
            alternative="oauth",
        ),
    ] = None
    oauth: OauthSettings | None = None
    shard: Annotated[
        str | None,
        Setting(
            "Workspaces of one shard are watched by one daemon, and share a log and a connection "
            "to the broker. Default: a shard of its own. Fixed once it is stored; `store "
            "export` and `store import` move a workspace. Without PostgreSQL all share one shard, "
            "and this changes nothing.",
            "small",
            _shard,
        ),
    ] = None
    # None: found out while running; refuses nothing until then.
    edition: Annotated[
        Edition | None,
        Setting(
            "Product edition; auto detects it by test reads. open allows every operation.",
            word_for_none="auto",
            other_words=_EDITION_WORDS,
        ),
    ] = None
    requests_per_minute: Annotated[
        float,
        Meta(ge=1, le=60_000),
        Setting(
            "Request budget; rate limits of the workspace can only lower it. Changes and ends go "
            "first; every other class of requests has a minimum share: none starves.",
            section="workspaces.poll",
        ),
    ] = 120.0
    connect_timeout_seconds: Annotated[
        float,
        Meta(ge=0.1, le=300),
        Setting("Timeout for connecting to the workspace, TLS included."),
    ] = 10.0
    read_timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=600), Setting("Timeout between two reads of one response.")
    ] = 30.0
    total_timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=3_600), Setting("Timeout for one request with its whole response.")
    ] = 60.0
    retry_total_seconds: float = 120.0  # no further try begins when it would pass this
    retries: Annotated[
        int,
        Meta(ge=0, le=10),
        Setting("Retries after the first attempt; only for network errors, 429 and 5xx."),
    ] = 4
    body_limit_bytes: Annotated[
        int,
        Meta(ge=65_536, le=1_073_741_824),
        Setting("Maximum size of a response, after decompression."),
    ] = 32 * 1024 * 1024
    page_size: Annotated[
        int, Meta(ge=2, le=1_000), Setting("Rows per page. At least 2, so that pages can overlap.")
    ] = 250
    page_limit: int = 400  # pages of one list; a longer one counts as unreadable
    connections: Annotated[
        int, Meta(ge=1, le=100), Setting("Maximum number of open connections.")
    ] = 8
    verify_tls: Annotated[
        bool,
        Setting("Verify the certificate. false exposes the token to anyone on the network path."),
    ] = True
    ca_file: Annotated[
        str | None,
        Setting(
            "PEM file with additional certificate authorities to trust.",
            "/etc/ssl/certs/company-ca.pem",
            is_file=True,
        ),
    ] = None

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        total = self.total_timeout_seconds
        return [
            f"{name}: must not be above total_timeout_seconds, which is {total:g}"
            for name in ("connect_timeout_seconds", "read_timeout_seconds")
            if getattr(self, name) > total
        ]
