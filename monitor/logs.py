"""Sets up logging, here and nowhere else: readable lines on a terminal, JSON otherwise.

Everything that is logged, by us or by a library, passes one handler and one `Redactor`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import logging
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Mapping, MutableMapping
from itertools import pairwise
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

import structlog

from monitor.model.clock import Clock, SystemClock
from monitor.model.secrets import Secret

MASK = "***"
MAX_TEXT_CHARACTERS = 16_384
MAX_DEPTH = 8
# A shorter text would also mask words of the log itself; keys still hide it.
MIN_LITERAL_CHARACTERS = 4
# What was replaced is masked until so many others have come: a token lives on for a while, and
# what failed with it is logged later. One that is replaced every few minutes for years stays few.
KEPT_GENERATIONS = 8

EventDict = MutableMapping[str, Any]

_SECRET_WORDS = re.compile(
    "tokens?|secrets?|passwords?|passwd|passphrase|authorization|cookie|credentials?|apikey|jwt"
)
_SECRET_PAIRS = frozenset({("api", "key"), ("secret", "key"), ("private", "key"), ("auth", "key")})
# `token_file` and `token_id` say where or which, never what.
_HARMLESS_ENDINGS = re.compile("file|env|ids?|name|count|at|seconds|state|type|expiry")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # ``Authorization: <scheme> <anything>``, as a header line or inside a dumped mapping.
    (re.compile(r"""(?i)(authorization["']?\s*[:=]\s*["']?)[^"'\r\n,;}]+"""), rf"\1{MASK}"),
    (re.compile(r"""(?i)\b(bearer\s+)(?!token\b|auth)[^\s"',;)}\]]+"""), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(basic\s+)[a-z0-9+/]{8,}={0,2}"), rf"\1{MASK}"),
    # The greedy end takes a password that holds an unquoted ``@`` along.
    (re.compile(r"""(?i)\b([a-z][a-z0-9+.-]{0,20}://)[^\s/"'<>]+@"""), rf"\1{MASK}@"),
    (re.compile(r"""(/hooks/[^/\s?#"']+/)[^\s"'?#,)]+"""), rf"\1{MASK}"),
    # ``x_token=abc``, ``"secretKey": "abc"``, ``X-Monitor-Secret: abc``, but not ``token_file=``.
    (
        re.compile(
            r"(?i)((?:token(?:value)?|secret(?:[-_]?key)?|password|passwd|passphrase|api[-_]?key)"
            r"""["']?\s*[=:]\s*["']?)(?!\*\*\*)[^\s"'&,;)}\]]+"""
        ),
        rf"\1{MASK}",
    ),
)
# Most texts have nothing of the kind, and one search shows it.
_SUSPICIOUS = re.compile(
    r"(?i)authorization|bearer|basic|://|/hooks/|token|secret|pass|api[-_]?key"
)


@functools.lru_cache(maxsize=4_096)
def names_a_secret(key: str) -> bool:
    """True for a key whose value must stay secret: ``token``, ``X-Api-Key``, ``secretKey``."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or _HARMLESS_ENDINGS.fullmatch(words[-1]):
        return False
    return any(map(_SECRET_WORDS.fullmatch, words)) or not _SECRET_PAIRS.isdisjoint(pairwise(words))


def _spellings(text: str) -> set[str]:
    """Return the ways in which a secret may be written inside a longer text."""
    return {
        text,
        repr(text)[1:-1],
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        quote(text, safe="", errors="replace"),
        quote_plus(text, errors="replace"),
        base64.b64encode(text.encode(errors="replace")).decode(),
    }


class Redactor:
    """A structlog processor that lets no secret through; it stands last before rendering.

    Keys that name secrets, `Secret` objects, credentials in headers, URLs and callback paths are
    masked wherever they stand; so is every registered secret, in any of its usual spellings.
    """

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._generations: dict[str, deque[frozenset[str]]] = {}  # by owner, the newest last
        # By how they begin, so that a line costs the same however many there are; with the number
        # of generations that they are of.
        self._literals: dict[str, Counter[str]] = {}
        self.register(*secrets)

    def register(self, *secrets: Secret, of: str = "configuration") -> None:
        """Mask these from now on, in the place of the oldest of the same owner.

        Those of less than four characters are left to their keys.
        """
        spellings = frozenset(
            spelling
            for secret in secrets
            for spelling in _spellings(secret.reveal())
            if len(spelling) >= MIN_LITERAL_CHARACTERS
        )
        if not spellings:
            return
        generations = self._generations.setdefault(of, deque())
        if spellings in generations:
            generations.remove(spellings)
        else:
            for literal in spellings:
                self._literals.setdefault(_begin(literal), Counter())[literal] += 1
        generations.append(spellings)
        if len(generations) > KEPT_GENERATIONS:
            self._drop(generations.popleft())

    def _drop(self, spellings: frozenset[str]) -> None:
        for literal in spellings:
            alike = self._literals[_begin(literal)]
            alike[literal] -= 1
            if not alike[literal]:
                del alike[literal]
            if not alike:
                del self._literals[_begin(literal)]

    def __call__(self, logger: Any, method: str, event: EventDict) -> EventDict:  # noqa: ARG002 - a processor's signature
        return {self.text(key): self._valued(key, value, 0) for key, value in event.items()}

    def text(self, text: str) -> str:
        """Return ``text`` without secrets; of a very long one, its two ends."""
        text = self._without_literals(text)
        if _SUSPICIOUS.search(text):
            for pattern, replacement in _PATTERNS:
                text = pattern.sub(replacement, text)
        left_off = len(text) - MAX_TEXT_CHARACTERS
        if left_off <= 0:
            return text
        half = MAX_TEXT_CHARACTERS // 2  # both ends: a trace has the error in its last line
        return f"{text[:half]} ... ({left_off} characters left off) ... {text[-half:]}"

    def value(self, value: Any, *, depth: int = 0) -> Any:
        """Return ``value`` as plain JSON types, without secrets."""
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._container(value, depth) if depth < MAX_DEPTH else "..."
        if isinstance(value, int | float | None):
            # Even a number is masked where its digits hold a secret.
            masked = self._without_literals(str(value))
            return value if masked == str(value) else masked
        if isinstance(value, bytes | bytearray):
            value = bytes(value).decode(errors="replace")
        is_text = isinstance(value, str | BaseException)
        return self.text(str(value) if is_text else repr(value))

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): self._valued(str(key), part, depth + 1)
                for key, part in value.items()
            }
        return [self.value(part, depth=depth + 1) for part in value]

    def _valued(self, key: str, value: Any, depth: int) -> Any:
        # That a secret is absent may be shown; an empty text shows the same.
        if names_a_secret(key) and value not in (None, "") and not isinstance(value, bool):
            return MASK
        return self.value(value, depth=depth)

    def _without_literals(self, text: str) -> str:
        # Again, because what stood around a masked secret may spell another one. Each pass
        # shortens the text, as no literal is shorter than the mask.
        while found := self._found(text):
            for literal in sorted(found, key=len, reverse=True):
                text = text.replace(literal, MASK)
        return text

    def _found(self, text: str) -> list[str]:
        begins = {_begin(text, at) for at in range(len(text) - MIN_LITERAL_CHARACTERS + 1)}
        return [
            literal
            for begin in self._literals.keys() & begins
            for literal in self._literals[begin]
            if literal in text
        ]


def _begin(text: str, at: int = 0) -> str:
    return text[at : at + MIN_LITERAL_CHARACTERS]


def escape_controls(logger: Any, method: str, event: EventDict) -> EventDict:  # noqa: ARG001 - a processor's signature
    """Keep a foreign text from writing lines or colours of its own on the terminal."""
    for key, value in event.items():
        if isinstance(value, str) and key not in ("exception", "stack") and not value.isprintable():
            event[key] = "".join(
                character
                if character.isprintable()
                else character.encode("unicode_escape").decode()
                for character in value
            )
    return event


class _Stamper:
    """Adds the time by the clock that was handed in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, logger: Any, method: str, event: EventDict) -> EventDict:  # noqa: ARG002 - a processor's signature
        stamp = self._clock.now().isoformat(timespec="milliseconds")
        event["timestamp"] = stamp.replace("+00:00", "Z")
        return event


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines, and keeps quiet about the content of one that could not be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        # The library would print the whole record, secrets and all.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(f"a log line of {record.name} could not be written\n")


def configure(
    *,
    level: str = "info",
    form: str = "auto",
    secrets: Iterable[Secret] = (),
    redactor: Redactor | None = None,
    stream: TextIO | None = None,
    clock: Clock | None = None,
) -> Redactor:
    """Send all logging to ``stream`` (stderr) and return the redactor, to register more secrets.

    ``form`` is ``console``, ``json``, or ``auto``: console on a terminal. Calling it again
    replaces the former set-up, as a reload does; with its ``redactor`` it also masks what it did.
    """
    stream = sys.stderr if stream is None else stream
    redactor = Redactor() if redactor is None else redactor
    redactor.register(*secrets)
    console = form == "console" or (form == "auto" and stream.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        _Stamper(clock or SystemClock()),
    ]
    handler = _Handler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                redactor,
                *_renderers(console=console, colors=stream.isatty()),
            ],
        )
    )
    _take_over_the_root(handler, level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # Not cached, or a reload could not change the level of loggers already in use.
        cache_logger_on_first_use=False,
    )
    return redactor


def _renderers(*, console: bool, colors: bool) -> list[structlog.typing.Processor]:
    if not console:
        return [structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [
        escape_controls,
        structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain),
    ]


def _take_over_the_root(handler: logging.Handler, level: str) -> None:
    root = logging.getLogger()
    for former in list(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    # Their lines carry whole paths, and that of a callback or a channel may be a secret; our own
    # listeners log the route instead.
    for library in ("aiohttp.access", "urllib3"):
        logging.getLogger(library).setLevel(logging.WARNING)
