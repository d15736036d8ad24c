"""The edge to Apprise: one service, by its URL. Everything here blocks and belongs in a thread.

Apprise answers with what its plugin logged; status codes are in there. A message gets a service
object of its own, because keys of incidents and headers of mails are arguments of the object.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from enum import Enum, StrEnum, auto
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import apprise
from apprise.plugins import url_to_dict
from msgspec import Struct

from monitor.model.errors import (
    ConfigurationError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.secrets import Secret

# What the library logs is read from its results, whatever the level of our log, and goes nowhere
# else: it may hold secrets.
_LOGGER = logging.getLogger("apprise")
_LOGGER.propagate = False
_LOGGER.setLevel(logging.DEBUG)
_LOGGER.addHandler(logging.NullHandler())

_ASSET = apprise.AppriseAsset(
    app_id="dataprep-monitor",
    app_desc="Monitor of data preparation",
    app_url="",
    # Its pictures are on a server of others, which would see who reads what.
    image_url_mask=None,
    image_url_logo=None,
    # With a deadline it calls in a few threads that all its services share.
    service_timeout=0,
)
# By its scheme, one of `PAGERS`, the argument that names an incident: what has one key is one
# incident, which a message of success ends where ``action`` is map.
_INCIDENT_KEYS = {"pagerduty": "dedup", "opsgenie": "alias"}
# Its plugin closes and acknowledges an alert by an id that it was answered and keeps in itself.
_KEPT = "opsgenie"
# Its plugin takes text, which the service reads as Markdown.
_READS_MARKDOWN = frozenset({"mmost", "mmosts", "zulip"})
# Their plugins take either, and put the subject into the text; the service reads both as Markdown.
_SHOWS_ONE_TEXT = frozenset({"discord", "guilded"})
_SHORT_CHARACTERS = 1_024  # a service that takes no more gets the short text
_MAIL_HINT = (
    "give from=ADDRESS and to=ADDRESS, and in a user name or password write %40 for @, %3A for :, "
    "%2F for /, %3F for ? and %23 for #"
)
_ADDRESS = re.compile(r"[^\s,;<>\"]+@[^\s,;<>\"]+")
_MAIL_PORTS = {True: 465, False: 25}
_STATUS = re.compile(r"error=(\d{3})\b")
# As the library logs what a service answered, and why there was no answer.
_DETAILS = re.compile(r"(?:Response Details|Socket Exception|I/O Exception):\s*(.*)", re.DOTALL)
# What a mail server answers to an address that it refuses for good.
_ADDRESS_REFUSED = re.compile(r"^\{.*: \((5\d\d), b(['\"])(.*)\2\)\}$", re.DOTALL)
_MAIL_SENT = "Sent Email to "
_MAIL_FAILED = "Sending email to "
# Said of a copy, while another address of the same mail was accepted.
_COPY_REFUSED = re.compile(r"SMTP recipient .* was refused: 5\d\d ", re.DOTALL)
_SHOWN = 300  # characters of an answer
_LEAST_SECRET = 4  # characters; shorter parts of a URL hide nothing
_PUBLIC = frozenset({"to", "from", "name", "mode", "format", "user", "host", "port"})
# The same message will be refused again; any other refusal is of the address, or of who asks.
_FINAL = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


class BodyForm(StrEnum):
    """How a body is written; also the name of its template."""

    HTML = "message.html"
    MARKDOWN = "message.markdown"
    TEXT = "message.txt"
    SHORT = "short.txt"


class Tone(StrEnum):
    """What a message means for who reads it, in the library's words."""

    FAILURE = "failure"
    WARNING = "warning"
    SUCCESS = "success"
    INFO = "info"


class _MailOutcome(Enum):
    """What became of a mail to one address."""

    TAKEN = auto()
    REFUSED = auto()  # for good
    FAILED = auto()  # for now


class Message(Struct, frozen=True, kw_only=True):
    """One message. ``thread`` is the same in all that belong together."""

    tone: Tone
    subject: str  # one line; empty where the body says it all
    body: str
    form: BodyForm
    thread: str
    incident: str  # what a pager knows the alert by
    is_acknowledgement: bool = False


_FORMATS = {
    BodyForm.HTML: apprise.NotifyFormat.HTML,
    BodyForm.MARKDOWN: apprise.NotifyFormat.MARKDOWN,
    BodyForm.TEXT: apprise.NotifyFormat.TEXT,
    BodyForm.SHORT: apprise.NotifyFormat.TEXT,
}


def demand_url(secret: Secret) -> None:
    """Accept a URL that names a service with all that it needs.

    Raises:
        ConfigurationError: it does not. The sentence does not repeat the URL.
    """
    url = secret.reveal()
    plugin = _plugin(url, {})
    if not _is_mail(url.partition("://")[0]):
        return
    values = [value for name, value in parse_qsl(urlsplit(url).query) if name == "to"]
    wanted = {address.lower() for value in values for address in _ADDRESS.findall(value)}
    if not plugin.targets or len({address for _, address in plugin.targets}) < len(wanted):
        raise ConfigurationError(
            "leaves out an address that mail should go to: write them as to=ADDRESS,ADDRESS, "
            "with to= once"
        )


def _is_mail(scheme: str) -> bool:
    return scheme.lower() in ("mailto", "mailtos")


def _arguments(url: str) -> dict[str, Any]:
    scheme = url.partition("://")[0] if "://" in url else ""
    arguments = url_to_dict(url)  # type: ignore[no-untyped-call]
    if arguments is not None:
        return dict(arguments)
    named = f"{scheme}://" if re.fullmatch(r"[a-z0-9+-]{1,20}", scheme) else "it"
    raise ConfigurationError(
        f"is no URL in Apprise's notation: {named} is not known, or lacks a part; "
        "https://appriseit.com/services shows those of each service"
    )


def _plugin(url: str, more: dict[str, Any]) -> Any:
    arguments = {**_arguments(url), **more}
    try:
        plugin = apprise.Apprise.instantiate(arguments, asset=_ASSET, suppress_exceptions=False)
    except TypeError as exc:  # the library's error of its plugins; its text may hold secrets
        scheme = str(arguments.get("schema"))
        hint = _MAIL_HINT if _is_mail(scheme) else "see https://appriseit.com/services"
        raise ConfigurationError(
            f"has the form of {scheme}://, and a part of it cannot be used; {hint}"
        ) from exc
    if plugin is None:
        raise ConfigurationError("names a service whose library is not installed here")
    return plugin


class Service:
    """One service at one address."""

    def __init__(self, url: Secret, *, timeout_seconds: float) -> None:
        """Raises `ConfigurationError` where the URL cannot be used."""
        self._url = url.reveal()
        arguments = _arguments(self._url)
        self.scheme = str(arguments["schema"])
        # The timeouts are for each connection, and for each answer on it.
        self._more: dict[str, Any] = {"cto": timeout_seconds, "rto": timeout_seconds}
        if self.scheme in _READS_MARKDOWN and "format" not in arguments:
            self._more["format"] = "markdown"
        plugin = _plugin(self._url, self._more)
        self._plugin = plugin
        self.name = str(plugin.service_name)
        self.form = _form_of(plugin, self.scheme)
        self.characters = int(plugin.body_maxlen)  # of a body, at most
        # Else it shows them above the body, in the same text.
        self.has_subjects = plugin.title_maxlen > 0 and self.scheme not in _SHOWS_ONE_TEXT
        self.address = _address_of(plugin)

    @property
    def has_incidents(self) -> bool:
        """True for a pager: each alert is an incident of its own, which its end resolves."""
        return self.scheme in _INCIDENT_KEYS

    def send(self, message: Message, *, to: str | None = None) -> str:
        """Send one message and return what the service answered, as far as that is known.

        ``to`` is a mail address in the place of those in the URL.

        Raises:
            OutputRefusedError: the service will refuse the same message again.
            OutputUnavailableError: it was not sent now.
        """
        try:
            plugin = self._plugin_for(message, to)
        except ConfigurationError as exc:
            raise OutputUnavailableError(f"url {exc}") from exc
        sender = apprise.Apprise(asset=_ASSET)
        sender.add(plugin)
        with sender.notify(
            body=message.body,
            title=message.subject,
            notify_type=message.tone.value,
            body_format=_FORMATS[message.form],
            log_level=logging.DEBUG,
        ) as result:
            status = result.status
            words = " ".join(self._shown(text) for text in _words(result))
            mails = set(_mail_outcomes(result))
            refusals = [self._shown(text) for text in _refusals(result)]
        is_taken = _MailOutcome.TAKEN in mails and _MailOutcome.FAILED not in mails
        if status is apprise.AppriseResultStatus.SUCCESS or is_taken:
            return words or "accepted"
        if to is not None and mails == {_MailOutcome.REFUSED}:
            raise OutputRefusedError(refusals[0])
        code = _STATUS.search(words)
        if code is not None and int(code[1]) in _FINAL:
            raise OutputRefusedError(words)
        raise OutputUnavailableError(words or f"{self.name} did not take it")

    def _plugin_for(self, message: Message, to: str | None) -> Any:
        if self.scheme == _KEPT:
            self._plugin.alias = message.incident
            self._plugin.action = "acknowledge" if message.is_acknowledgement else "map"
            return self._plugin
        targets = {} if to is None else {"targets": [to]}
        return _plugin(self._url, {**self._more, **self._threaded(message), **targets})

    def _threaded(self, message: Message) -> dict[str, Any]:
        """Return the arguments by which the service knows what belongs together."""
        if (key := _INCIDENT_KEYS.get(self.scheme)) is not None:
            return {key: message.incident, "action": "map"}
        if _is_mail(self.scheme):
            thread = f"<{quote(message.thread, safe='')}@dataprep-monitor>"
            own = _arguments(self._url).get("headers") or {}
            return {
                "headers": {
                    "Auto-Submitted": "auto-generated",
                    "References": thread,
                    "In-Reply-To": thread,
                    **own,
                }
            }
        return {}

    def _shown(self, text: str) -> str:
        """Return a text without secrets; cut only then, since half a secret is not found."""
        for secret in sorted(_secrets_in(self._url), key=len, reverse=True):
            text = text.replace(secret, "***")
        text = "".join(character if character.isprintable() else " " for character in text)
        return " ".join(text.split())[:_SHOWN]


def _words(result: Any) -> Iterator[str]:
    """Yield what went wrong, and what the service answered."""
    for entry in result.logs():
        if entry.level in ("WARNING", "ERROR", "CRITICAL"):
            yield entry.message
        elif (details := _DETAILS.match(entry.message)) is not None:
            yield details[1]


def _refusals(result: Any) -> Iterator[str]:
    """Yield what a mail server answered to each address that it refused for good."""
    for entry in result.logs():
        details = _DETAILS.match(entry.message)
        refusal = None if details is None else _ADDRESS_REFUSED.match(details[1])
        if refusal is not None:
            yield f"{refusal[1]} {refusal[3]}"


def _mail_outcomes(result: Any) -> Iterator[_MailOutcome]:
    """Yield what became of each mail of a message; nothing where it is no mail."""
    outcome = _MailOutcome.FAILED
    for entry in result.logs():
        details = _DETAILS.match(entry.message)
        if details is not None and _ADDRESS_REFUSED.match(details[1]):
            outcome = _MailOutcome.REFUSED
        elif _COPY_REFUSED.match(entry.message):
            outcome = _MailOutcome.TAKEN
        elif entry.message.startswith(_MAIL_SENT):
            yield _MailOutcome.TAKEN
        elif entry.message.startswith(_MAIL_FAILED):
            yield outcome
            outcome = _MailOutcome.FAILED


def _secrets_in(url: str) -> Iterator[str]:
    """Yield every part of a URL that may be a secret, as written and decoded."""
    parts = urlsplit(url)
    authority = parts.netloc.rpartition("@")
    host = authority[2].rpartition(":")[0] or authority[2]
    words = re.split(r"[:@]", authority[0]) + parts.path.split("/")
    pairs = (pair.partition("=") for pair in parts.query.split("&"))
    words += [value for name, _, value in pairs if name not in _PUBLIC]
    # Of a service in the cloud the host is a part of the secret, and has no dot.
    words += [host] if "." not in host and host != "localhost" else []
    for word in words:
        if len(word) >= _LEAST_SECRET:
            yield word
            yield unquote(word)


def _form_of(plugin: Any, scheme: str) -> BodyForm:
    formats = plugin.notify_format
    formats = formats if isinstance(formats, tuple) else (formats,)
    if plugin.body_maxlen <= _SHORT_CHARACTERS and apprise.NotifyFormat.MARKDOWN not in formats:
        return BodyForm.SHORT
    usual = apprise.NotifyFormat.MARKDOWN if scheme in _SHOWS_ONE_TEXT else formats[0]
    chosen = plugin.resolve_format(usual)  # by the URL, if it names one
    if chosen is apprise.NotifyFormat.HTML:
        return BodyForm.HTML
    return BodyForm.MARKDOWN if chosen is apprise.NotifyFormat.MARKDOWN else BodyForm.TEXT


def _address_of(plugin: Any) -> tuple[str, int] | None:
    """Return host and port of the service; None where the library does not tell."""
    if (host := getattr(plugin, "smtp_host", None)) is not None:
        return str(host), int(plugin.port or _MAIL_PORTS[bool(plugin.secure)])
    urls = [
        value
        for name, value in vars(type(plugin)).items()
        if isinstance(value, str)
        and value.startswith("https://")
        and name not in ("service_url", "setup_url")
    ]
    host = plugin.host
    if isinstance(host, str) and ("." in host or host == "localhost"):
        return host, int(plugin.port or (443 if plugin.secure else 80))
    cloud = urlsplit(urls[0]).hostname if urls else None
    return None if cloud is None else (cloud, 443)
