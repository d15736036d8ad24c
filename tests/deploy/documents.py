"""Reads what the project's documents show: blocks, code spans, commands, paths."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("config", "deploy", "monitor", "tests")
ABOUT = ".github"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
# The name may have its folder in front; an option or a second name is no command.
_COMMAND = re.compile(r"dataprep-monitor[ \t]+(?!dataprep-monitor)([a-z][a-z-]*)([^\n`#|;&]*)")
_OPTION = re.compile(r"(?<!\S)(--?[a-z][a-z-]*)")


def documents() -> list[Path]:
    """Return every document of the project."""
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / ABOUT).glob("*.md")), *sorted(below)]


def blocks(language: str, path: Path) -> list[str]:
    """Return the fenced blocks of a language; a line that goes on in the next is joined."""
    blocks = _BLOCK.findall(path.read_text())
    return [text.replace("\\\n", " ") for shown, text in blocks if shown == language]


def code(path: Path) -> list[str]:
    """Return what a file shows as code: fenced blocks and spans; of other files, spans."""
    text = path.read_text()
    fenced = blocks("sh", path) if path.suffix == ".md" else []
    return [*fenced, *_SPAN.findall(_BLOCK.sub("", text))]


def commands(path: Path) -> list[tuple[str, list[str]]]:
    """Return each command of ours that a file shows, with its options."""
    return [
        (match[1], _OPTION.findall(match[2]))
        for shown in code(path)
        for match in _COMMAND.finditer(shown)
    ]


def own_paths(path: Path) -> list[str]:
    """Return the paths in a document's code that begin with one of the project's folders."""
    # The id of a test begins at the folder of tests, whatever room it is about.
    own = re.compile(rf"(?<![\w./:{{-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)(?![\w*{{]|::|\.\w)")
    return [span for shown in code(path) for span in own.findall(shown)]


def links(path: Path) -> list[str]:
    """Return the relative links of a document, to pictures too."""
    text = path.read_text()
    targets = [
        *re.findall(r"\]\(([^)#\s]+)", text),
        *re.findall(r'(?:src|srcset|href)="([^"#\s]+)"', text),
    ]
    return [link for link in targets if "://" not in link]
