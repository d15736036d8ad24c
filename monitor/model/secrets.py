"""A value that must stay secret: no `repr`, no log line, no error shows it."""

from __future__ import annotations

import hmac


class Secret:
    """Holds a secret text. Only `reveal` gives it away, so every use can be found by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def matches(self, other: str) -> bool:
        """Compare in constant time, whatever the lengths."""
        return hmac.compare_digest(self._text.encode(), other.encode(errors="surrogateescape"))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other._text)

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__
