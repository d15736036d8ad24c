"""A value that must stay secret: no `repr`, no log line, no error shows it."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Protocol


class Secret:
    """Holds a secret text. Only `reveal` gives it away, so every use can be found by name."""

    __slots__ = ("_read_again", "_text")

    def __init__(self, text: str, *, read_again: Callable[[], Secret] | None = None) -> None:
        """``read_again`` reads it where it was read, which may hold another one by then."""
        self._text = text
        self._read_again = read_again

    @property
    def can_change(self) -> bool:
        """True where `read_again` may return another one: it stands in a file, or is printed."""
        return self._read_again is not None

    def read_again(self) -> Secret:
        """Return the secret as it is now where it was read. Blocks: call it in a thread.

        Raises:
            ConfigurationError: there is none that could be used; one sentence without its place.
        """
        return self if self._read_again is None else self._read_again()

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


class RegisterSecrets(Protocol):
    """Keeps secrets out of the log that come while the daemon runs."""

    def __call__(self, *secrets: Secret, of: str) -> None:
        """Mask these from now on, in the place of the oldest of the same owner."""


def not_logged(*secrets: Secret, of: str) -> None:
    """Register nothing: for what has no log."""
