"""Foreign words: checked before they become part of a path, an address or a topic; cut as texts."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import unicodedata
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta

from monitor.model.runs import RunKind

LONGEST_NAME = 256  # characters of a name, or of a word such as a status
LONGEST_ERROR = 2_000  # characters of what people read as a text, such as an error

# What moves a cursor, colours a terminal, ends a line or turns the direction of what follows; and
# what has no width: two names that look alike would differ, or one would carry a hidden text.
# Everything else that is not a letter stays: joined emoji and wide spaces are part of names.
_CONTROL = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\ud800-\udfff"
_WITHOUT_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # with the tags
)
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINING_LETTER = "\u0600-\u109f\u1780-\u17ff"  # of scripts that are written with joiners
_HARMFUL = re.compile(
    f"[{_CONTROL}{_WITHOUT_WIDTH}]"
    f"|(?<![{_EMOJI}{_JOINING_LETTER}])[\u200c\u200d]"
    f"|[\u200c\u200d](?![{_EMOJI}{_JOINING_LETTER}])"
)
_MARKS = ("Mn", "Me")
_MOST_MARKS = 3  # on one letter; more of them cover the lines above and below
_MAY_BE_MARKS = re.compile("[\u0300-\U0010ffff]{4}")
_LINES = re.compile(r"[\n\t]")
_MARK = "…#"
_MARKED_CHARACTERS = len(_MARK) + 8
_NUMBER = re.compile(r"\A[1-9][0-9]{0,18}\Z")
_SHOWN = 40  # characters of a text that is refused
_RUN_ID = re.compile(r"\A[A-Za-z0-9_-]{1,64}\Z")
_HOST = re.compile(r"[\w.-]+")

# The same, for fields that are decoded.
RunIdText = Annotated[str, Meta(pattern=_RUN_ID.pattern)]
NumberedId = Annotated[str, Meta(pattern=_NUMBER.pattern)]


def is_run_id(text: str) -> bool:
    """True for what can be the id of a run: it changes neither a path nor a topic."""
    return _RUN_ID.fullmatch(text) is not None


def is_id_of(kind: RunKind, text: str) -> bool:
    """True for what the workspace can have as the id of such a run.

    Assumption: job groups and flow runs are numbered, as every recorded answer shows. Of plan runs
    the specification allows texts as well.
    """
    if kind is RunKind.PLAN_RUN:
        return is_run_id(text)
    return _NUMBER.fullmatch(text) is not None


def why_no_id(kind: RunKind, text: str) -> str:
    """Return in words why a text cannot be the id of such a run."""
    hint = "it is a number, as 7827359" if kind is not RunKind.PLAN_RUN else "as 7827359"
    return f"{text[:_SHOWN]!r} is not the id of a {kind}; name it as the workspace does: {hint}"


def is_plain(text: str) -> bool:
    """True for a text of printable characters without spaces.

    Python's own reading of URLs drops line ends and tabs unseen, so that another host is asked.
    """
    return text.isprintable() and not any(character.isspace() for character in text)


def is_host(text: str) -> bool:
    """True for an IP address, or a name that can be asked for."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _is_name(text)
    return True


def split_web_url(url: str) -> SplitResult | None:
    """Return the parts of an http or https URL whose host can be requested, None for any other."""
    if not is_plain(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port  # raises where it is no number
    except ValueError:
        return None
    is_usable = port != 0 and is_host(parts.hostname or "") and parts.scheme in ("http", "https")
    return parts if is_usable else None


def is_loopback(host: str) -> bool:
    """True where only this machine can reach the host; an unknown name counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_name(text: str) -> bool:
    if _HOST.fullmatch(text) is None:
        return False
    try:
        # Resolving a name does the same, and fails there with an error of its own kind.
        return bool(text.encode("idna"))
    except UnicodeError:
        return False


def harmless(text: str, *, longest: int = LONGEST_NAME, has_lines: bool = False) -> str:
    r"""Return ``text`` as it may be shown anywhere, at most ``longest`` characters of it.

    Characters that control, turn the direction or have no width become their escapes, ``\x1b``,
    and so do marks after the third on one letter; line ends and tabs of a text that ``has_lines``
    stay. What is cut ends in a mark and a hash of the whole, so that two texts with one beginning
    stay different.
    """
    # Cut first: searching a megabyte would take too long.
    shown = _HARMFUL.sub(lambda found: _escaped(found[0], has_lines=has_lines), text[: longest + 1])
    if _MAY_BE_MARKS.search(shown):
        shown = _with_few_marks(shown)
    if len(shown) <= longest:
        return shown
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{shown[: longest - _MARKED_CHARACTERS]}{_MARK}{digest}"


def harmless_json(text: str) -> str:
    """Return a JSON text, the same to a program, that does a terminal no harm; line ends stay."""
    return _HARMFUL.sub(lambda found: _escaped_as_json(found[0]), text)


def _escaped_as_json(character: str) -> str:
    if _LINES.match(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _escaped(character: str, *, has_lines: bool) -> str:
    if has_lines and _LINES.match(character):
        return character
    return character.encode("unicode_escape").decode()


def _with_few_marks(text: str) -> str:
    pieces, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in _MARKS else 0
        pieces.append(_escaped(character, has_lines=False) if marks > _MOST_MARKS else character)
    return "".join(pieces)
