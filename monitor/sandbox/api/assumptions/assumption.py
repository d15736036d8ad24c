"""What one assumption is."""

from __future__ import annotations

from msgspec import Struct


class Assumption(Struct, frozen=True, kw_only=True):
    """Something that nothing published says, and what this workspace does instead.

    ``operations`` are operation ids; without any, it holds everywhere. ``says`` is Markdown.
    """

    key: str
    text: str
    operations: tuple[str, ...] = ()
