"""The client of commands that call a running daemon: requests, and pages of rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from monitor.cli import lazy
from monitor.cli.options import DaemonOptions
from monitor.model.errors import ConfigurationError

if TYPE_CHECKING:
    from monitor.cli.daemon_address import DaemonAddress

Rows = list[dict[str, Any]]
Query = Mapping[str, str | int | None]

_CREDENTIALS = ("token_file", "username", "password_file")
_PAGE = 1_000  # the most rows of one answer


def address_of(options: DaemonOptions) -> DaemonAddress:
    """Return the daemon that the options of a command name.

    Raises:
        ConfigurationError: with one sentence for each problem of options or configuration.
    """
    if options.is_url:
        if options.is_typed("config"):
            raise ConfigurationError("--url: -c is given too, and names a daemon; leave one out")
        return url_address(options)
    if options.is_typed("ca_file"):
        raise ConfigurationError("--ca-file: belongs to --url; add that")
    return configured_address(options.config, options)


def url_address(options: DaemonOptions) -> DaemonAddress:
    """Return the server at the URL that is given; raises as `address_of` does.

    Warns before credentials are sent where others can read them.
    """
    address: DaemonAddress = lazy.daemon_address.address_of_url(
        options.url or "",
        token_file=options.token_file if options.is_for_url("token_file") else None,
        username=options.username if options.is_for_url("username") else None,
        password_file=options.password_file if options.is_for_url("password_file") else None,
        ca_file=options.ca_file,
    )
    lazy.daemon_address.warn_of_clear_text(address)
    return address


def configured_address(path: Path, options: DaemonOptions) -> DaemonAddress:
    """Return the daemon that runs with a configuration; raises as `address_of` does.

    Credentials that are typed go before those of the configuration. Those of the environment are
    sent only where it has none: they may belong to another server.
    """
    server = lazy.settings_files.load_server(path)
    is_known = server.token is not None or server.password is not None
    given = {
        name: getattr(options, name) if options.is_typed(name) or not is_known else None
        for name in _CREDENTIALS
    }
    return lazy.daemon_address.address_of_server(
        server, lazy.daemon_address.authorization_of(**given)
    )


def get(daemon: DaemonOptions, path: str, query: Query | None = None) -> Any:
    return lazy.admin.AdminClient(address_of(daemon)).get(path, given(query or {}))


def post(
    daemon: DaemonOptions, path: str, body: Mapping[str, Any], *, timeout_seconds: float = 30.0
) -> Any:
    wanted = {key: value for key, value in body.items() if value is not None}
    client = lazy.admin.AdminClient(address_of(daemon))
    return client.post(path, wanted, timeout_seconds=timeout_seconds)


def delete(daemon: DaemonOptions, path: str) -> Any:
    return lazy.admin.AdminClient(address_of(daemon)).delete(path)


def given(query: Query) -> dict[str, str]:
    """Return the parameters that have a value."""
    return {name: str(value) for name, value in query.items() if value is not None}


def list_rows(daemon: DaemonOptions, path: str, query: Query | None = None) -> Rows:
    """Return the rows of a list that comes whole."""
    return lazy.admin.rows_of(get(daemon, path, query))


class FirstRows(NamedTuple):
    """The first rows of a list. ``total`` is None where only ``has_more`` is known.

    ``answer`` is the last one, with what it holds beside its rows.
    """

    rows: Rows
    has_more: bool
    total: int | None
    answer: Mapping[str, Any]


def list_first(
    daemon: DaemonOptions, path: str, query: Query, *, limit: int, page: int = _PAGE
) -> FirstRows:
    """Return the first rows of a list that comes in pages of at most ``page``; 0: all rows."""
    rows: Rows = []
    wanted = given(query)
    client = lazy.admin.AdminClient(address_of(daemon))
    while True:
        # One more than is shown: not every list says whether more would follow.
        size = min(limit + 1 - len(rows), page) if limit else page
        answer = client.get(path, {**wanted, "limit": str(size)})
        rows += lazy.admin.rows_of(answer)
        cursor, total = answer.get("next"), answer.get("total")
        if limit and len(rows) > limit:
            return FirstRows(rows[:limit], has_more=True, total=total, answer=answer)
        if not isinstance(cursor, str):
            return FirstRows(rows, has_more=False, total=total, answer=answer)
        wanted["cursor"] = cursor
