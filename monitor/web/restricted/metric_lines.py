"""The lines of an exposition, as far as they are about some workspaces."""

from __future__ import annotations

import re

from monitor.web.restricted.live_state import Sees

_TEXT = rb'"(?:[^"\\]|\\.)*"'
_LABELS = re.compile(rb"[A-Za-z_:][A-Za-z0-9_:]*\{((?:[^\"}]|" + _TEXT + rb")*)\}")  # no exemplar's
# Label by label: a value may hold what looks like the beginning of another label.
_WORKSPACE = re.compile(rb"(?:[A-Za-z_]\w*=" + _TEXT + rb",)*workspace=(" + _TEXT + rb")")
_ESCAPED = re.compile(r"\\(.)")
_MEANING = {"n": "\n"}
_END = b"# EOF"


def lines_about(exposition: bytes, sees: Sees) -> bytes:
    """Return the series of workspaces that are seen, with the words about their families.

    Series without a workspace count over everything, and are left out.
    """
    kept: list[bytes] = []
    words: list[bytes] = []  # about the family that follows
    is_in_family = False
    for line in exposition.splitlines():
        if line == _END:
            kept.append(line)
        elif line.startswith(b"#"):
            if is_in_family:
                words, is_in_family = [], False
            words.append(line)
        else:
            is_in_family = True
            labels = _LABELS.match(line)
            found = None if labels is None else _WORKSPACE.match(labels[1])
            if found is not None and sees(_unescaped(found[1][1:-1].decode())):
                kept += [*words, line]
                words = []
    return b"".join(line + b"\n" for line in kept)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _MEANING.get(match[1], match[1]), text)
