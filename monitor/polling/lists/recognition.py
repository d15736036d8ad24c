"""Recognition of a workspace by what it shows again: it is the one that it was."""

from __future__ import annotations


class Recognition:
    """When the workspace was last asked for what showed anything that it had shown before.

    An answer may come late, and shows what was there when it was asked for. What is recorded here
    is recorded in ``whole`` too.
    """

    def __init__(self, *, whole: Recognition | None = None) -> None:
        self._whole = whole
        self._at: float | None = None  # monotonic

    def record(self, *, asked: float) -> None:
        self._at = asked if self._at is None else max(self._at, asked)
        if self._whole is not None:
            self._whole.record(asked=asked)

    def is_since(self, monotonic: float) -> bool:
        return self._at is not None and self._at >= monotonic
