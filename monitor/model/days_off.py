"""Days on which nothing is expected: public holidays of a region, and dates of one's own.

Holidays are computed by the optional library `holidays`, a year at a time. It reads no network.
"""

from __future__ import annotations

from datetime import date
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import suggestion

NOT_INSTALLED = (
    "needs the library holidays, which is not installed: "
    "run pip install 'dataprep-monitor[calendars]'"
)
_YEARS_KEPT = 512  # of all regions


class DaysOff(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``region`` is a country, or a country and its subdivision: ``DE-BE``. ``dates`` are ISO."""

    region: str | None = None
    dates: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """Return which days they are, as a part of a sentence; empty without any."""
        region = (f"holidays of {self.region}",) if self.region else ()
        own = ("days of its own",) if self.dates else ()
        return " and ".join((*region, *own))

    def has(self, day: date) -> bool:
        """True where nothing is expected on that day."""
        if day.isoformat() in self.dates:
            return True
        return self.region is not None and day in public_holidays(self.region, day.year)


NO_DAYS_OFF = DaysOff()


@lru_cache(maxsize=_YEARS_KEPT)
def public_holidays(region: str, year: int) -> frozenset[date]:
    """Return the public holidays of a year; none of a year that the library does not know.

    Raises:
        ConfigurationError: the library is not installed, or the region is not known.
    """
    country, subdivision = parse_region(region)
    found = _library().country_holidays(country, subdiv=subdivision, years=year)
    return frozenset(found.keys())


@cache
def parse_region(text: str) -> tuple[str, str | None]:
    """Return the codes of a country and of its subdivision.

    Raises:
        ConfigurationError: one sentence says what is not known, and what may be meant.
    """
    country, _, subdivision = text.partition("-")
    countries: dict[str, list[str]] = _library().list_supported_countries(include_aliases=True)
    if country not in countries:
        raise ConfigurationError(
            f"{country!r} is no country{_meant(country, _names_of_countries())}; "
            "write its two letters by ISO 3166, such as DE or DE-BE"
        )
    if not subdivision:
        if text != country:
            raise ConfigurationError(f"names no subdivision; write {country} or such as DE-BE")
        return _loaded(country, None)
    if subdivision not in countries[country]:
        raise ConfigurationError(
            f"{subdivision!r} is no subdivision of {country}"
            f"{_meant(subdivision, _names_of_subdivisions(country))}"
            f"{_there_are(countries[country])}"
        )
    return _loaded(country, subdivision)


def _loaded(country: str, subdivision: str | None) -> tuple[str, str | None]:
    """Load the holidays of a country, which takes 50 ms: here, and not in an evaluation."""
    _library().country_holidays(country, subdiv=subdivision)
    return country, subdivision


def parse_date(text: str) -> date:
    """Return a date of one's own.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError as exc:
        raise ConfigurationError(f"{text!r} is no date; write it as 2026-12-24") from exc
    if day.isoformat() != text:
        raise ConfigurationError(f"{text!r} is not written as {day.isoformat()}")
    return day


def _library() -> Any:
    try:
        return import_module("holidays")
    except ImportError as exc:
        raise ConfigurationError(NOT_INSTALLED) from exc


def _names_of_countries() -> dict[str, str]:
    """Return codes by all that people write for them."""
    names: dict[str, str] = {}
    for module, (_, code, *others) in _library().registry.COUNTRIES.items():
        words = (code, module.replace("_", " "), *others)
        names |= {word: str(code) for word in words}
    return names


def _names_of_subdivisions(country: str) -> dict[str, str]:
    aliases = _library().country_holidays(country).get_subdivision_aliases()
    return {word: code for code, words in aliases.items() for word in (code, *words)}


def _meant(word: str, names: dict[str, str]) -> str:
    exact = next((name for name in names if name.lower() == word.lower()), None)
    near = exact or suggestion(word, names)
    return "" if near is None else f"; did you mean {names[near]}?"


def _there_are(subdivisions: list[str]) -> str:
    return f"; there are {', '.join(subdivisions)}" if subdivisions else "; it has none"
