"""Secrets that are found again in whatever form something shows them."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from urllib.parse import quote, quote_plus

from msgspec import Struct

_ALPHABET = string.ascii_letters + string.digits
_RECOGNISED = 8  # characters of an end of a secret that nothing else has


class Planted(Struct, frozen=True):
    """One secret: where it is set, and its text."""

    place: str
    text: str

    def forms(self) -> set[bytes]:
        """Return what shows it: its beginning, its end, or all of it encoded."""
        ends = {self.text[:_RECOGNISED], self.text[-_RECOGNISED:]}
        whole = {
            quote(self.text, safe=""),
            quote_plus(self.text),
            html.escape(self.text),
            json.dumps(self.text)[1:-1],
            repr(self.text)[1:-1],
            self.text.encode().hex(),
        }
        return {form.encode() for form in ends | whole} | _in_base64(self.text[: _RECOGNISED + 4])


def _in_base64(text: str) -> set[bytes]:
    """Return what base64 makes of a text, whatever stands before it, without the signs at its ends.

    Three begin and end in the middle of a sign.
    """
    found: set[bytes] = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + text.encode())
        end = len(encoded) - 4
        found.add(encoded[4 if before else 0 : end])
    return found


class Planting:
    """Makes secrets, each another; the same ones at each run."""

    def __init__(self) -> None:
        self._random = random.Random(26)  # noqa: S311 - to be found again
        self.planted: list[Planted] = []

    def word(self) -> str:
        return "".join(self._random.choices(_ALPHABET, k=12))

    def new(self, place: str, *, between: str = "") -> str:
        """Return the text of a new secret, with signs in it that need to be escaped."""
        text = f"{self.word()}{between}{self.word()}"
        self.note(place, text)
        return text

    def note(self, place: str, text: str) -> None:
        """Look for a secret that something else has made."""
        self.planted.append(Planted(place, text))

    def shown_in(self, outputs: dict[str, bytes]) -> list[str]:
        """Return which secrets stand in which outputs, with what is around them."""
        return [
            f"{planted.place} in {name}: {_around(output, form)!r}"
            for planted in self.planted
            for name, output in outputs.items()
            for form in planted.forms()
            if form in output
        ]


def _around(output: bytes, form: bytes) -> bytes:
    at = output.index(form)
    return output[max(0, at - 150) : at + len(form) + 50]
