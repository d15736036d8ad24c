"""Templates of messages: the package's own, or files of the same names in a channel's folder.

What names and reasons hold is data, never markup: HTML is escaped by itself, Markdown by the filter
``md``. A template of the operator's is rendered with samples before it is used; where it fails
later all the same, the package's own takes its place, because the message matters more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog
from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    FileSystemLoader,
    PackageLoader,
    StrictUndefined,
    TemplateError,
    select_autoescape,
)
from jinja2.sandbox import SandboxedEnvironment

from monitor.model.errors import ConfigurationError
from monitor.model.words import counted
from monitor.outputs.notify.lines import Fact, Line, Link, one_line

log = structlog.get_logger()

SHOWN_LINES = 20
_SUBJECT = "subject.txt"
_BODIES = ("message.html", "message.markdown", "message.txt", "short.txt")
NAMES = (_SUBJECT, *_BODIES)
_SUBJECT_CHARACTERS = 200
_LARGEST_FILE = 200_000  # bytes
# All that an expression of a template can raise.
_FAILURES = (
    TemplateError,
    OSError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
# What Markdown would read as markup. Nothing more, because some services show the backslash: no
# underscore inside a word, and what begins a list or heading only where a line begins.
_MARKDOWN = re.compile(
    r"([\\`*\[\]<>~]|(?<!\w)_|_(?!\w)|^[#+=|-]|(?<=^\d)[.)]|(?<=^\d\d)[.)])", re.MULTILINE
)
# An address of all who read; a character that cannot be seen takes its meaning.
_MENTION = re.compile(r"(?<!\w)@(?=\**(?:all|channel|everyone|here|stream|topic)\b)")


class Templates:
    """The templates of one channel."""

    def __init__(self, folder: str | None) -> None:
        """Raises `ConfigurationError` where a file of the folder cannot be used."""
        own = PackageLoader("monitor.outputs.notify")
        self._own = _environment(own)
        self._environment = self._own
        if folder is not None:
            self._environment = _environment(ChoiceLoader([FileSystemLoader(folder), own]))
            _demand_templates(Path(folder), self._environment)

    def subject(self, lines: Sequence[Line], *, page_url: str | None) -> str:
        """Return one line; ``lines`` are all of a message, the worst first."""
        text = self._rendered(_SUBJECT, lines, page_url=page_url, note=None)
        return one_line(text, most=_SUBJECT_CHARACTERS)

    def body(
        self, name: str, lines: Sequence[Line], *, page_url: str | None, note: str | None = None
    ) -> str:
        """Return the body by the template of that name; ``note`` stands above all lines."""
        return self._rendered(name, lines, page_url=page_url, note=note).strip() + "\n"

    def _rendered(
        self, name: str, lines: Sequence[Line], *, page_url: str | None, note: str | None
    ) -> str:
        values = _values(lines, page_url=page_url, note=note)
        try:
            return self._environment.get_template(name).render(values)
        except _FAILURES as exc:
            if self._environment is self._own:
                raise
            log.warning("template not used", name=name, reason=one_line(str(exc)))
            failed = f"The channel's own template {name} failed: {one_line(str(exc))}."
            notes = f"{failed} {note}" if note else failed
            return self._own.get_template(name).render({**values, "note": notes})


def _environment(loader: BaseLoader) -> SandboxedEnvironment:
    environment = SandboxedEnvironment(
        loader=loader,
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["md"] = escaped_markdown
    return environment


def _values(lines: Sequence[Line], *, page_url: str | None, note: str | None) -> dict[str, Any]:
    workspaces = dict.fromkeys(line.workspace for line in lines)
    return {
        "lines": lines[:SHOWN_LINES],
        "first": lines[0],
        "total": len(lines),
        "more": max(0, len(lines) - SHOWN_LINES),
        "counts": _counts(lines),
        "workspace": next(iter(workspaces)) if len(workspaces) == 1 else None,
        "page_url": page_url,
        "note": note,
    }


def _counts(lines: Sequence[Line]) -> str:
    """Return ``12 alerts: 9 FAILED, 3 RESOLVED``."""
    words = Counter(line.word for line in lines)
    return f"{counted(len(lines), 'alert')}: " + ", ".join(
        f"{count} {word}" for word, count in words.items()
    )


def escaped_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is written."""
    return _MARKDOWN.sub(r"\\\1", _MENTION.sub("@\u2060", text))


def _demand_templates(folder: Path, environment: SandboxedEnvironment) -> None:
    problems: list[str] = []
    for name in NAMES:
        path = folder / name
        try:
            if path.exists() and path.stat().st_size > _LARGEST_FILE:
                problems.append(f"{path} is larger than {_LARGEST_FILE:,} bytes")
                continue
            for values in _samples():
                environment.get_template(name).render(values)
        except _FAILURES as exc:
            problems.append(f"{path}: {one_line(str(exc))}")
    if not folder.is_dir():
        problems = [f"{folder} is no folder that can be read"]
    if problems:
        raise ConfigurationError(problems)


def _samples() -> Iterator[dict[str, Any]]:
    """Yield the values of messages that differ in all that may be absent."""
    yield _values([_SAMPLE], page_url=_SAMPLE_PAGE, note="A note.")
    yield _values([_SAMPLE] * (SHOWN_LINES + 1), page_url=_SAMPLE_PAGE, note="A note.")
    bare = msgspec.structs.replace(_SAMPLE, reason="", text="", facts=(), links=())
    other = msgspec.structs.replace(bare, workspace="marketing")
    yield _values([bare, other], page_url=None, note=None)


_SAMPLE_PAGE = "https://monitor.example.com"
_SAMPLE = Line(
    word="FAILED",
    is_over=False,
    rank=0,
    name="Supplier invoices",
    workspace="finance",
    reason="Column 'amount' could not be converted",
    text="Run 4711: Column 'amount' could not be converted",
    facts=(Fact("Since", "Sat 28 Nov 2026 07:10 CET"),),
    links=(Link("Run", f"{_SAMPLE_PAGE}/runs/finance/flow_run/4711"),),
)
