"""Globs of ``match``: which words one field matches.

``*``, ``?`` and ``[abc]`` as in file names; case counts, since names of a workspace may differ by
nothing else. A leading ``!`` excludes: alone it matches everything but that, beside others it
excludes from what they match.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.settings import problems_of
from monitor.model.suggestions import suggestion

EXCLUDES = "!"
LONGEST_GLOB = 500  # characters
MOST_GLOBS = 1_000
_LISTED = 25  # words in one sentence
_BEFORE_WILDCARD = re.compile(r"[^*?\[]+")


class Globs(Struct, frozen=True, kw_only=True):
    """The parsed globs of one field. ``included`` empty matches everything not excluded."""

    included: tuple[str, ...]
    excluded: tuple[str, ...]  # without their mark
    is_included: Callable[[str], object | None]
    is_excluded: Callable[[str], object | None]

    def match(self, words: Iterable[str]) -> bool:
        """True where a word is included and none excluded; all words name the same thing."""
        words = tuple(words)
        if self.excluded and any(self.is_excluded(word) is not None for word in words):
            return False
        return not self.included or any(self.is_included(word) is not None for word in words)

    def why_not(self, words: Iterable[str]) -> str:
        """Return why the words do not match; call only where they do not."""
        # The repr of a kind or trigger is that of an enum, which is in no configuration.
        words = [str(word) for word in words if word]
        known = " and ".join(map(repr, words)) or "not known"
        for glob in self.excluded:
            if any(fnmatch.fnmatchcase(word, glob) for word in words):
                return f"{known} is excluded by {f'{EXCLUDES}{glob}'!r}"
        return f"{known} fits none of {', '.join(map(repr, self.included))}"


def parse_globs(texts: Sequence[str]) -> Globs:
    """Return the globs of one field.

    Raises:
        ConfigurationError: a glob is empty, or excludes everything; one sentence says so.
    """
    included = tuple(text for text in texts if not text.startswith(EXCLUDES))
    excluded = tuple(text[1:] for text in texts if text.startswith(EXCLUDES))
    if not all((*included, *excluded)):
        raise ConfigurationError('must not be empty; leave the key out, or write "*"')
    if any(not text.strip("*") for text in excluded):
        raise ConfigurationError(f'"{EXCLUDES}*" excludes everything; remove it')
    if len(texts) > MOST_GLOBS or any(len(text) > LONGEST_GLOB for text in texts):
        raise ConfigurationError(
            f"must be at most {MOST_GLOBS:,} globs of {LONGEST_GLOB} characters each"
        )
    return Globs(
        included=included,
        excluded=excluded,
        is_included=_any_of(included),
        is_excluded=_any_of(excluded),
    )


def fits_some(globs: str | Iterable[str], words: Iterable[str], what: str) -> str | None:
    """Return a hint for each glob that matches none of the words; None where all match."""
    words = [str(word) for word in words]

    def parse(text: str) -> None:
        glob = text.removeprefix(EXCLUDES)
        if not any(fnmatch.fnmatchcase(word, glob) for word in words):
            closest = _closest(glob, words)
            hint = f"; did you mean {closest}?" if closest else f"; there are {_listed(words)}"
            raise ConfigurationError(f'no {what} fits "{glob}"{hint}')

    return problems_of([globs] if isinstance(globs, str) else globs, parse)


def _closest(glob: str, words: Sequence[str]) -> str | None:
    """Return the word that was probably meant: in another case, or nearly as it begins."""
    lower = glob.lower()
    in_other_case = (word for word in words if fnmatch.fnmatchcase(word.lower(), lower))
    beginning = _BEFORE_WILDCARD.match(glob)
    stem = beginning[0] if beginning else ""
    if (word := next(in_other_case, None)) is not None:
        return word
    if not stem or stem == glob:
        return suggestion(glob.strip("*?"), words)
    begins = {word[: len(stem)]: word for word in reversed(words)}
    near = suggestion(stem, begins)
    return None if near is None else begins[near]


def _listed(words: Sequence[str]) -> str:
    if len(words) > _LISTED:
        return f"{len(words):,}, such as {words[0]}"
    return ", ".join(words) or "none"


def _any_of(globs: Iterable[str]) -> Callable[[str], object | None]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs)).match
