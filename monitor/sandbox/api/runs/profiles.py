"""The rows and the profile of a run, made up by its id. The same run always answers the same.

`rows_of` is what everything that speaks of a run's rows asks, so that all of it agrees. Recipes'
steps are not executed: what a recipe makes is what its primary input holds, where that was
uploaded, and otherwise rows that fit a profile by chance.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.world.records.objects import WriteSetting
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World

BUCKETS = 10
MOST_WORDS = 20  # of a column, the most frequent ones
_INVALID = "#N/A"
# The first type that all cells of a column fit.
_TYPES = {
    "Integer": re.compile(r"[+-]?\d{1,18}"),
    "Decimal": re.compile(r"[+-]?(\d{1,18}(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?"),
    "Bool": re.compile(r"true|false", re.IGNORECASE),
    "Datetime": re.compile(
        r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?"
    ),
}
NUMBERS = frozenset({"Integer", "Decimal"})
_COMPRESSION: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda content: content,
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "bzip2": bz2.compress,
}
VALID, INVALID, EMPTY = "VALID", "INVALID", "EMPTY"
# Name, type, and the least and largest number or the words that its values are among.
_NUMBERS = {
    "order_id": ("Integer", 1, 90_000),
    "amount": ("Decimal", 0, 2_500),
    "quantity": ("Integer", 1, 48),
    "discount": ("Decimal", 0, 40),
}
_WORDS = {
    "customer": ("String", ("Amira", "Bo", "Chen", "Dora", "Emil")),
    "region": ("String", ("east", "north", "south", "west")),
    "is_paid": ("Bool", ("false", "true")),
    "ordered_at": ("Datetime", ("2026-08", "2026-09", "2026-10", "2026-11")),
}
_FEWEST_COLUMNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column: how many of the run's rows fit its type, and how the fitting ones lie.

    ``parts`` has one number for each bucket between ``low`` and ``high``, or for each of ``words``.
    """

    name: str
    type: str
    valid: int
    invalid: int
    empty: int
    parts: tuple[int, ...]
    words: tuple[str, ...] = ()
    distinct: int = 0  # words, also those not among ``words``
    low: float = 0
    high: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Named columns and their cells, row by row."""

    names: tuple[str, ...]
    rows: Sequence[Sequence[str]]


def uploaded(world: World, job_group: JobGroup) -> Table | None:
    """Return the rows of the uploaded file that a run works on; None where it works on another."""
    dataset_id = next(iter(job_group.dataset_ids), None)
    if dataset_id is None:
        return None
    dataset = world.imported_datasets.get(dataset_id, with_deleted=True)
    return None if dataset is None or dataset.content is None else table_in(dataset.content)


def table_in(content: bytes) -> Table:
    """Return what a CSV file holds; its first line names the columns."""
    text = content.decode("utf-8-sig", errors="replace").replace("\0", "")
    names, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row] or [
        ["column1"]
    ]
    width = len(names)
    whole = [[*row[:width], *[""] * (width - len(row))] for row in rows]
    return Table(names=tuple(names), rows=whole)


def measured(table: Table) -> list[ColumnProfile]:
    """Return the profile of each column of a table."""
    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.names)
    return [_measured(name, cells) for name, cells in zip(table.names, columns, strict=True)]


def _measured(name: str, cells: Sequence[str]) -> ColumnProfile:
    filled = [cell for cell in cells if cell]
    fitting = (type_ for type_, form in _TYPES.items() if all(map(form.fullmatch, filled)))
    found = next(fitting, "String") if filled else "String"
    profile = ColumnProfile(
        name=name,
        type=found,
        valid=len(filled),
        invalid=0,
        empty=len(cells) - len(filled),
        parts=(),
    )
    if found not in NUMBERS:
        words = Counter(filled)
        top = dict(words.most_common(MOST_WORDS))
        return replace(profile, parts=tuple(top.values()), words=tuple(top), distinct=len(words))
    numbers = [float(cell) for cell in filled]
    low, high = min(numbers), max(numbers)
    width = (high - low) / BUCKETS or 1.0
    places = Counter(min(int((number - low) / width), BUCKETS - 1) for number in numbers)
    parts = tuple(places[place] for place in range(BUCKETS))
    return replace(profile, parts=parts, low=low, high=high)


def made_up(chance: random.Random, columns: Sequence[ColumnProfile]) -> Table:
    """Return rows by chance that have exactly these profiles."""
    cells = []
    for column in columns:
        column_cells = [*_cells(column), *[_INVALID] * column.invalid, *[""] * column.empty]
        chance.shuffle(column_cells)
        cells.append(column_cells)
    names = tuple(column.name for column in columns)
    return Table(names=names, rows=list(zip(*cells, strict=True)))


def _cells(column: ColumnProfile) -> Iterator[str]:
    width = (column.high - column.low) / BUCKETS
    for place, count in enumerate(column.parts):
        if column.words:
            yield from itertools.repeat(column.words[place], count)
            continue
        low = column.low + place * width
        for number in range(count):
            value = low + width * number / count
            yield str(int(value)) if column.type == "Integer" else f"{value:.2f}"


def written(table: Table, setting: WriteSetting) -> bytes:
    """Return a table as the file that a write setting describes.

    Raises:
        ApiError: 400, for a format or compression that is not written here.
    """
    if setting.compression not in _COMPRESSION or setting.format not in {"csv", "json"}:
        how = " ".join({setting.format, setting.compression} - {"none"})
        raise bad_field("id", f"names a file that this workspace does not write: {how}")
    if setting.format == "json":
        lines = (json.dumps(dict(zip(table.names, row, strict=True))) for row in table.rows)
        text = "".join(f"{line}\n" for line in lines)
    else:
        page = io.StringIO()
        lines_of = csv.writer(
            page,
            delimiter=setting.delim if len(setting.delim) == 1 else ",",
            quoting=csv.QUOTE_MINIMAL if setting.has_quotes else csv.QUOTE_NONE,
            escapechar="\\",
            lineterminator="\n",
        )
        lines_of.writerows([table.names] if setting.header else [])
        lines_of.writerows(table.rows)
        text = page.getvalue()
    return _COMPRESSION[setting.compression](text.encode())


def rows_of(world: World, job_group: JobGroup) -> int:
    """Return how many rows a job group made: none before its end, or if it did not complete."""
    if job_group.status is not NativeStatus.COMPLETE:
        return 0
    table = uploaded(world, job_group)
    if table is not None:
        return len(table.rows)
    usual = world.random("rows", job_group.recipe_id).randint(1_000, 50_000)
    return int(usual * world.random("rows of run", job_group.id).uniform(0.9, 1.1))


def columns_of(world: World, job_group: JobGroup) -> list[ColumnProfile]:
    """Return the profile of each column; a recipe makes the same columns in all its runs.

    They are those of the file where one was uploaded, and made up otherwise.
    """
    table = uploaded(world, job_group)
    if table is not None:
        return measured(table)
    names = [*_NUMBERS, *_WORDS]
    chance = world.random("columns", job_group.recipe_id)
    chosen = set(chance.sample(names, k=chance.randint(_FEWEST_COLUMNS, len(names))))
    rows = rows_of(world, job_group)
    return [
        _column(world.random("profile", job_group.id, name), name, rows, job_group.unfit_values)
        for name in names
        if name in chosen
    ]


def _column(chance: random.Random, name: str, rows: int, unfit: float) -> ColumnProfile:
    invalid, empty = chance.randint(0, rows // 50), chance.randint(0, rows // 20)
    invalid += int((rows - invalid - empty) * unfit)
    valid = rows - invalid - empty
    words = () if name in _NUMBERS else _WORDS[name][1]
    _, low, high = _NUMBERS.get(name, ("", 0, 0))
    return ColumnProfile(
        name=name,
        type=_NUMBERS[name][0] if name in _NUMBERS else _WORDS[name][0],
        valid=valid,
        invalid=invalid,
        empty=empty,
        parts=_parts(chance, valid, len(words) or BUCKETS),
        words=words,
        distinct=len(words),
        low=low,
        high=high,
    )


def _parts(chance: random.Random, whole: int, count: int) -> tuple[int, ...]:
    """Return ``count`` numbers, by chance, whose sum is ``whole``."""
    cuts = sorted(chance.randint(0, whole) for _ in range(count - 1))
    return tuple(end - begin for begin, end in itertools.pairwise((0, *cuts, whole)))


def profile_of(world: World, job_group: JobGroup) -> dict[str, Json]:
    """Return a run's profile as the API shows it."""
    columns = columns_of(world, job_group)
    return {
        "profilerTypeCheckHistograms": {column.name: _checks(column) for column in columns},
        "profilerValidValueHistograms": {column.name: _values(column) for column in columns},
        "profilerRules": {},
        "columnTypes": {column.name: [column.type] for column in columns},
    }


def _checks(column_profile: ColumnProfile) -> Json:
    counts = {
        VALID: column_profile.valid,
        INVALID: column_profile.invalid,
        EMPTY: column_profile.empty,
    }
    return [{"key": key, "count": count} for key, count in counts.items()]


def _values(column_profile: ColumnProfile) -> Json:
    if column_profile.type not in NUMBERS:
        pairs = zip(column_profile.words, column_profile.parts, strict=True)
        topk = [{"key": word, "count": count} for word, count in pairs]
        ub = column_profile.distinct
        return {"topk": topk, "k": len(topk), "c": column_profile.valid, "ub": ub}
    low, high = column_profile.low, column_profile.high
    return {
        "min": low,
        "max": high,
        "roundMin": low,
        "roundMax": high,
        "buckets": [{"pos": place, "b": count} for place, count in enumerate(column_profile.parts)],
        "quartiles": {
            f"q{quarter}": _quartile(column_profile, low, high, quarter) for quarter in (1, 2, 3)
        },
    }


def _quartile(column_profile: ColumnProfile, low: float, high: float, quarter: int) -> float:
    """Return the upper end of the bucket in which a quarter of the values is passed."""
    passed = itertools.accumulate(column_profile.parts)
    place = next(
        place for place, count in enumerate(passed) if 4 * count >= quarter * column_profile.valid
    )
    return round(low + (high - low) * (place + 1) / len(column_profile.parts), 2)
