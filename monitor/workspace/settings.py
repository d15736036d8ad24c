"""What the operator may set about the connection to one workspace."""

from __future__ import annotations

from msgspec import Struct

from monitor.catalogue.operations import Edition
from monitor.model.secrets import Secret


class WorkspaceSettings(Struct, frozen=True, kw_only=True):
    """How one workspace is reached. Durations are seconds."""

    name: str  # the label, topic level and path segment
    url: str  # the API's base, with or without ``/v4`` at its end
    token: Secret | None = None  # None sends no ``Authorization`` header
    edition: Edition | None = None  # None: found out while running; refuses nothing until then
    requests_per_minute: float = 120.0  # more than 0; the workspace's own headers can only lower it
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 30.0  # the longest pause inside one answer
    total_timeout_seconds: float = 60.0  # one request with its whole answer
    retry_total_seconds: float = 120.0  # no further try begins when it would pass this
    retries: int = 4  # tries after the first
    body_limit_bytes: int = 32 * 1024 * 1024  # of one answer, after decompression
    page_size: int = 250  # rows requested at once; at least 2, so that pages can overlap
    page_limit: int = 400  # pages of one list; a longer one counts as unreadable
    connections: int = 8  # open at the same time
    verify_tls: bool = True
    ca_file: str | None = None  # PEM with further trusted authorities; None: the system's
