"""Finds the address of the daemon that a command calls, with its credentials."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from monitor.cli.tables import print_remark
from monitor.listening.settings import TlsSettings
from monitor.model.errors import ConfigurationError
from monitor.model.outside import is_loopback, split_web_url
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings

_MOST_BYTES = 65_536


class DaemonAddress(Struct, frozen=True, kw_only=True):
    """One daemon's server. The credentials are sent there and nowhere else."""

    url: str  # without a slash at its end
    authorization: Secret | None  # the value of the header
    ca_file: Path | None = None  # None: the system's authorities
    tls: TlsSettings | None = None  # the only certificate that it may have, whatever its names
    named_by: str  # the option that named it, for hints


def address_of_server(server: ServerSettings, authorization: Secret | None = None) -> DaemonAddress:
    """Return where the daemon listens that runs with these settings, and how we are let in.

    Of the people in ``[[access]]`` the settings know hashes only; without an authorization, what
    ``[server]`` itself holds is sent.
    """
    if authorization is not None:
        pass
    elif server.token is not None:
        authorization = _bearer(server.token)
    elif server.password is not None:
        authorization = _basic(server.username or "", server.password)
    return DaemonAddress(
        url=f"{server.scheme}://{server.reachable}",
        authorization=authorization,
        tls=server.tls,
        named_by="-c",
    )


def address_of_url(
    url: str,
    *,
    token_file: Path | None,
    username: str | None,
    password_file: Path | None,
    ca_file: Path | None,
) -> DaemonAddress:
    """Return the server at the URL of a command line, with the credentials of its files.

    Raises:
        ConfigurationError: with one sentence for each problem of the options.
    """
    problems: list[str] = []
    base = _url(url, problems)
    if ca_file is not None and not ca_file.is_file():
        problems.append(f"--ca-file: {str(ca_file)!r}: there is no such file")
    authorization = _authorization(
        problems, token_file=token_file, username=username, password_file=password_file
    )
    if problems:
        raise ConfigurationError(problems)
    return DaemonAddress(url=base, authorization=authorization, ca_file=ca_file, named_by="--url")


def authorization_of(
    *, token_file: Path | None, username: str | None, password_file: Path | None
) -> Secret | None:
    """Return the credentials in the files of a command line, as the value of the header.

    Raises:
        ConfigurationError: with one sentence for each problem of the options.
    """
    problems: list[str] = []
    found = _authorization(
        problems, token_file=token_file, username=username, password_file=password_file
    )
    if problems:
        raise ConfigurationError(problems)
    return found


def _authorization(
    problems: list[str],
    *,
    token_file: Path | None,
    username: str | None,
    password_file: Path | None,
) -> Secret | None:
    token = secret_of_file("--token-file", token_file, problems)
    password = secret_of_file("--password-file", password_file, problems)
    if (username is None) != (password_file is None):
        problems.append("--username: goes with --password-file; give both or none")
    if token is not None and password is not None:
        problems.append("--token-file: --password-file is given too; leave one out")
    if password is not None:
        return _basic(username or "", password)
    return None if token is None else _bearer(token)


def warn_of_clear_text(address: DaemonAddress) -> None:
    """Tell people where their credentials can be read on their way."""
    parts = urlsplit(address.url)
    is_read = parts.scheme == "http" and not is_loopback(parts.hostname or "")
    if is_read and address.authorization is not None:
        print_remark(
            f"warning: {address.url}: the token or password is sent in the clear, for others on "
            "the network to read and use; write https://"
        )


def _url(text: str, problems: list[str]) -> str:
    """Return the URL that the paths of requests are added to."""
    parts = split_web_url(text)
    if parts is None:
        shown = text.rpartition("@")[2][:60]  # before it may stand a password
        problems.append(
            f"--url: {shown!r} is no http or https URL; write one as https://monitor.example.com"
        )
    elif parts.username is not None or parts.password is not None:
        problems.append("--url: holds a user name; give it with --username and --password-file")
    elif parts.query or parts.fragment:
        problems.append("--url: ends in a query; leave out what follows the path")
    return text.rstrip("/")


def secret_of_file(option: str, path: Path | None, problems: list[str]) -> Secret | None:
    """Return the secret that a file holds; None, and a problem of the option, where it has none."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1).decode().strip()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no text"
        problems.append(f"{option}: {str(path)!r} cannot be read: {reason}")
        return None
    if not text or len(text) > _MOST_BYTES or not text.isprintable():
        problems.append(f"{option}: {str(path)!r} must hold the secret alone, in one line")
        return None
    return Secret(text)


def _bearer(token: Secret) -> Secret:
    return Secret(f"Bearer {token.reveal()}")


def _basic(username: str, password: Secret) -> Secret:
    pair = f"{username}:{password.reveal()}".encode()
    return Secret(f"Basic {base64.b64encode(pair).decode()}")
