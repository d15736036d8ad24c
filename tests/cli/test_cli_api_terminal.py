"""Output of ``api`` on a terminal: nothing that a workspace sends controls it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator

import pytest

from monitor.catalogue.operations import operation
from monitor.cli.api_output import write_answer, write_rows
from monitor.workspace.requester import Answer

HARMFUL = "\x7f\x85\x9b\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\U000e0041"
NAME = f"Sales {HARMFUL} 売上 👩‍👩‍👧"
ROW = json.dumps({"name": NAME}, ensure_ascii=False).encode()


class Output(io.TextIOWrapper):
    """Standard output that is a terminal, or is not."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def written(self) -> bytes:
        self.flush()
        return self._bytes.getvalue()


def standard_output(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> Output:
    output = Output(is_terminal=is_terminal)
    monkeypatch.setattr("sys.stdout", output)
    return output


def answer_of(body: bytes) -> Answer:
    return Answer(status_code=200, headers={}, body=body, began_at=None)


async def rows() -> AsyncIterator[bytes]:
    yield ROW
    yield ROW


async def write_both() -> None:
    write_answer(answer_of(ROW), operation("getFlow"))
    await write_rows(rows())


async def test_no_text_controls_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, bidirectional and invisible characters are escaped, and programs read the same."""
    output = standard_output(monkeypatch, is_terminal=True)
    await write_both()
    shown = output.written().decode()

    assert not set(HARMFUL) & set(shown)
    assert "\\u009b" in shown
    assert "\\u202e" in shown
    assert "売上 👩‍👩‍👧" in shown
    first, end = json.JSONDecoder().raw_decode(shown)
    assert first == {"name": NAME}
    assert json.loads(shown[end:]) == [{"name": NAME}] * 2


async def test_a_program_gets_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe nothing is escaped."""
    output = standard_output(monkeypatch, is_terminal=False)
    await write_both()

    assert output.written().decode().count(NAME) == 3


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_file_does_not_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,  # noqa: FBT001 - drawn by pytest
) -> None:
    """A file that is printed shows its escapes on a terminal, and comes as it is in a pipe."""
    body = b"a,b\n\x1b[2Jowned\xff\xc2\x9b1m\t\xe2\x80\xae\n"
    output = standard_output(monkeypatch, is_terminal=is_terminal)
    write_answer(answer_of(body), operation("getJobGroupPdfResults"))

    shown = b"a,b\n\\x1b[2Jowned\\xff\\x9b1m\t\\u202e\n"
    assert output.written() == (shown if is_terminal else body)
