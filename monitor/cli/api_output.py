"""Writes the answers of ``api``: JSON, files, and a progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import msgspec

from monitor.catalogue.operations import Operation
from monitor.cli.progress_bars import terminal_bar
from monitor.model.errors import UnreadableAnswerError
from monitor.model.outside import harmless, harmless_json
from monitor.workspace.files import FileReceiver
from monitor.workspace.requester import Answer

# Takes the progress and its end, None where the end is not known.
Show = Callable[[int, int | None], None]


def write_answer(answer: Answer, operation: Operation) -> None:
    """Print an answer: JSON indented, a file as it came, nothing for an empty body.

    On a terminal what could control it is shown by its escapes.

    Raises:
        UnreadableAnswerError: it is neither a file nor JSON.
    """
    if answer.status_code == HTTPStatus.NOT_MODIFIED:
        sys.stderr.write("answered 304: it was started before, with the same execution id\n")
    if not answer.body:
        return
    try:
        msgspec.json.decode(answer.body, type=msgspec.Raw)
        text = msgspec.json.format(answer.body, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if not operation.answers_file:
            raise UnreadableAnswerError(
                f"the answer of {operation.operation_id} is no JSON",
                operation_id=operation.operation_id,
                status_code=answer.status_code,
            ) from exc
        if sys.stdout.isatty():
            shown = answer.body.decode(errors="backslashreplace")
            sys.stdout.write(harmless(shown, longest=2 * len(shown), has_lines=True))
        else:
            sys.stdout.buffer.write(answer.body)
    else:
        sys.stdout.write(_as_shown(text) + "\n")


async def write_rows(rows: AsyncIterator[bytes]) -> None:
    """Print a JSON array, row by row. It is closed only after the last row."""
    async for piece in _array(rows):
        sys.stdout.write(_as_shown(piece.decode()))


def _as_shown(json_text: str) -> str:
    return harmless_json(json_text) if sys.stdout.isatty() else json_text


async def save_rows(rows: AsyncIterator[bytes], path: Path) -> None:
    """Write a JSON array to a file, which appears when it is complete."""
    with progress_bar(path.name, unit="rows") as show:
        async with FileReceiver(path) as file:
            await file.begin(None)
            count = 0
            async for piece in _array(rows):
                await file.take(piece)
                count += 1
                show(count, None)


async def _array(rows: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    start = b"["
    async for row in rows:
        yield start + b"\n" + row
        start = b","
    yield b"[]\n" if start == b"[" else b"\n]\n"


@contextmanager
def progress_bar(name: str, *, unit: str) -> Iterator[Show]:
    """Show the progress of ``name`` on a terminal; elsewhere show nothing."""
    if not sys.stderr.isatty():
        yield lambda _done, _whole: None
        return
    with terminal_bar(name, unit=unit) as show:
        yield show
