"""JSON5, in which newer packages are written, as JSON."""

from __future__ import annotations

import json
import re

from monitor.sandbox.api.packages.archive import bad_package

LARGEST_PAGE_BYTES = 2 * 1024 * 1024  # it is read token by token
_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s{}\[\]:,'"/]+)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS = ("\n", "\r\n", "\r", "\u2028", "\u2029")
_NUMBER = re.compile(r"\+?(-?)(\d*)\.?(\d*)([eE][+-]?\d+)?")


def as_json(page: bytes, name: str) -> bytes:
    """Return a page of JSON5 as JSON. What is not JSON5 does not become JSON either.

    Raises:
        ApiError: 400, naming ``data``, where it is too large or has what JSON5 never has.
    """
    if len(page) > LARGEST_PAGE_BYTES:
        raise bad_package(f"has a page {name} of more than {LARGEST_PAGE_BYTES} bytes")
    text = page.decode("utf-8-sig", errors="replace")
    pieces: list[str] = []
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise bad_package(f"has a page {name} that cannot be read at byte {place}")
        place = token.end()
        if token["blank"]:
            continue
        if token["text"]:
            pieces.append(json.dumps(_ESCAPE.sub(_unescaped, token["text"][1:-1])))
        elif token["word"]:
            pieces.append(token["word"])
        else:
            _add_mark(pieces, token["mark"])
    return "".join(_value(piece) for piece in pieces).encode(errors="replace")


def _add_mark(pieces: list[str], mark: str) -> None:
    if mark == ":" and pieces and not pieces[-1].startswith('"'):
        pieces[-1] = json.dumps(pieces[-1])  # a key without quotes
    if mark in "]}" and pieces and pieces[-1] == ",":
        pieces.pop()
    pieces.append(mark)


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "ux" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    return "" if escape in _LINE_ENDS else _ESCAPED.get(escape, escape)


def _value(piece: str) -> str:
    """Return a word as JSON has it: numbers begin and end with a digit there."""
    number = _NUMBER.fullmatch(piece)
    if number is not None and (number[2] or number[3]):
        fraction = f".{number[3]}" if number[3] else ""
        return f"{number[1]}{number[2] or 0}{fraction}{number[4] or ''}"
    if piece.lower().startswith("0x"):
        return str(int(piece, 16)) if re.fullmatch(r"0[xX][0-9a-fA-F]{1,15}", piece) else piece
    return piece
