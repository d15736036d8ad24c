"""How much data a run made, and what profiling found in it. The same run always answers the same.

`rows_of` is what everything that speaks of a run's rows asks, so that all of it agrees.
"""

from __future__ import annotations

import itertools
import random

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.runs.rows import BUCKETS, NUMBERS, ColumnProfile, measured, uploaded
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World

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
