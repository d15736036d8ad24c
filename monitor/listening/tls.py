"""Certificate and key of a listener: loads the pair, and tries it in a handshake of its own.

The handshake needs no network. It shows that a client can use the pair, and what stands in the
certificate, which the standard library reads only of a peer.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from monitor.listening.settings import TlsSettings
from monitor.model.errors import ConfigurationError

_MOST_BYTES = 1_048_576
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_CERTIFICATE_END = "-----END CERTIFICATE-----"
_KEY = "PRIVATE KEY-----"
_FLIGHTS = 10  # of a handshake, which takes three
# Of OpenSSL, without a name in the standard library: a certificate may be examined at any time.
_NO_CHECK_TIME = 0x200000
# Of OpenSSL: the certificate is for another name, or another address.
_OTHER_NAME = (62, 64)


class ServedPair(Struct, frozen=True, kw_only=True):
    """A certificate and key that clients can use, as far as time and names allow."""

    context: ssl.SSLContext
    valid_from: datetime
    expires_at: datetime
    leaf: str  # PEM


def load_pair(settings: TlsSettings, *, section: str, needs_client: bool) -> ServedPair:
    """Return the pair of the files. Blocks: to be called in a thread.

    ``needs_client``: without a certificate of ``client_ca_file`` no client is served; otherwise
    one that shows none is.

    Raises:
        ConfigurationError: with one sentence ``key: value: hint``.
    """
    leaf = leaf_of(settings, section=section)
    key = _text(settings.key_file, f"{section}.key_file")
    if _KEY not in key:
        raise _problem(
            section,
            "key_file",
            settings.key_file,
            "holds no private key in PEM form; name the file that does",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_chain(context, settings, section)
    found = _examined(context, leaf, settings, section)
    if settings.client_ca_file is not None:
        _load_authorities(context, settings.client_ca_file, section)
        context.verify_mode = ssl.CERT_REQUIRED if needs_client else ssl.CERT_OPTIONAL
    return ServedPair(
        context=context,
        valid_from=_instant(found["notBefore"]),
        expires_at=_instant(found["notAfter"]),
        leaf=leaf,
    )


def leaf_of(settings: TlsSettings, *, section: str) -> str:
    """Return the first certificate of the file, which is the listener's own.

    Raises:
        ConfigurationError: there is none.
    """
    text = _text(settings.certificate_file, f"{section}.certificate_file")
    _, begin, rest = text.partition(_CERTIFICATE)
    body, end, _ = rest.partition(_CERTIFICATE_END)
    if not begin or not end:
        hint = "holds no certificate in PEM form; name the file that does"
        raise _problem(section, "certificate_file", settings.certificate_file, hint)
    return f"{begin}{body}{end}\n"


def missing_names(pair: ServedPair, names: Iterable[str]) -> list[str]:
    """Return those of the host names and addresses that the certificate is not for."""
    return [name for name in names if not _is_for(pair, name)]


def client_of(leaf: str) -> ssl.SSLContext:
    """Return a context for a client that knows this one certificate, whatever its names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags |= _NO_CHECK_TIME
    context.load_verify_locations(cadata=leaf)
    return context


def _is_for(pair: ServedPair, name: str) -> bool:
    client = client_of(pair.leaf)
    client.check_hostname = True
    try:
        _handshake(pair.context, client, name)
    except ssl.SSLCertVerificationError as exc:
        if exc.verify_code not in _OTHER_NAME:
            raise
        return False
    return True


def _load_chain(context: ssl.SSLContext, settings: TlsSettings, section: str) -> None:
    def password() -> str:
        # Without this the library would ask for one at the terminal.
        hint = "is encrypted; write it without a passphrase, readable for the daemon's user only"
        raise _problem(section, "key_file", settings.key_file, hint)

    try:
        context.load_cert_chain(settings.certificate_file, settings.key_file, password)
    except ssl.SSLError as exc:
        if exc.reason == "KEY_VALUES_MISMATCH":
            hint = "is not the key of certificate_file; name the one that it was made with"
            raise _problem(section, "key_file", settings.key_file, hint) from exc
        hint = f"cannot be used with key_file ({_reason(exc)}); name a pair in PEM form"
        raise _problem(section, "certificate_file", settings.certificate_file, hint) from exc
    except OSError as exc:
        raise _unreadable(f"{section}.key_file", settings.key_file, exc) from exc


def _load_authorities(context: ssl.SSLContext, file: str, section: str) -> None:
    _text(file, f"{section}.client_ca_file")
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError as exc:
        hint = "holds no certificates in PEM form; name the authorities of client certificates"
        raise _problem(section, "client_ca_file", file, hint) from exc
    except OSError as exc:
        raise _unreadable(f"{section}.client_ca_file", file, exc) from exc


def _examined(
    context: ssl.SSLContext, leaf: str, settings: TlsSettings, section: str
) -> dict[str, Any]:
    """Return the certificate as a client of ours sees it."""
    try:
        found = _handshake(context, client_of(leaf), None).getpeercert()
    except ssl.SSLError as exc:
        hint = f"no client can use it ({_reason(exc)}); name a certificate for a server"
        raise _problem(section, "certificate_file", settings.certificate_file, hint) from exc
    assert found  # noqa: S101 - it was verified
    return found


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str | None) -> ssl.SSLObject:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = client.wrap_bio(to_client, to_server, server_hostname=name)
    sides = [connecting, server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_FLIGHTS):
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
        if not sides:
            return connecting
    raise ssl.SSLError("the handshake does not end")


def _text(path: str, key: str) -> str:
    try:
        # To read a pipe would wait without end, and the daemon could not stop either.
        if Path(path).exists() and not Path(path).is_file():
            raise ConfigurationError(f"{key}: {json.dumps(path)}: is no regular file; name one")
        with Path(path).open("rb") as file:
            # Before and between the certificates may stand words of any encoding.
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError as exc:
        raise _unreadable(key, path, exc) from exc


def _reason(exc: ssl.SSLError) -> str:
    verified = getattr(exc, "verify_message", None)
    return verified or (exc.reason or str(exc)).replace("_", " ").lower()


def _problem(section: str, key: str, path: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"{section}.{key}: {json.dumps(path)}: {hint}")


def _unreadable(key: str, path: str, exc: OSError) -> ConfigurationError:
    hint = f"cannot be read ({exc.strerror}); name a file that the daemon's user can read"
    return ConfigurationError(f"{key}: {json.dumps(path)}: {hint}")


def _instant(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
