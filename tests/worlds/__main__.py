"""Plays worlds by hand: ``python -m tests.worlds [--seed N] [--worlds N] [--speed N]``.

``--only SEED`` plays a single world and prints all that happened in it, ``--beside`` with the
other worlds of its batch. Exits 1 if anything disagrees with the truth.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import structlog

from tests.worlds.findings import Figures
from tests.worlds.generator import BATCH, world
from tests.worlds.judge import judge
from tests.worlds.play import SPEED, play
from tests.worlds.script import Ingredient
from tests.worlds.story import story


def main() -> int:
    """Play what was asked for and return the exit code."""
    options = _options()
    without = frozenset(Ingredient(word) for word in options.without)
    if options.only is not None:
        return _play_single(
            options.only, speed=options.speed, is_beside=options.beside, without=without
        )
    batches = [
        tuple(range(first, min(first + BATCH, options.seed + options.worlds)))
        for first in range(options.seed, options.seed + options.worlds, BATCH)
    ]
    parts: list[Figures] = []
    with ProcessPoolExecutor(max_workers=options.processes) as pool:
        tasks = [
            pool.submit(_play_batch, seeds, options.speed, without, options.stories)
            for seeds in batches
        ]
        for task in tasks:
            parts.append(task.result())
            for line in parts[-1].lines():
                print(line, flush=True)  # noqa: T201 - a command
    figures = Figures.together(parts)
    print(figures.summary())  # noqa: T201 - a command
    return 1 if figures.findings else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--worlds", type=int, default=100, help="how many worlds")
    parser.add_argument("--speed", type=float, default=SPEED, help="seconds of a world in one")
    parser.add_argument("--processes", type=int, default=2, help="batches at the same time")
    parser.add_argument("--only", type=int, help="a single seed, with its story")
    parser.add_argument("--beside", action="store_true", help="with the batch of that seed")
    parser.add_argument("--stories", type=Path, help="a folder for the stories of failing worlds")
    parser.add_argument("--without", nargs="*", default=(), help="ingredients to leave out")
    return parser.parse_args()


def _play_batch(
    seeds: tuple[int, ...],
    speed: float,
    without: frozenset[Ingredient],
    stories: Path | None,
) -> Figures:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    worlds = [world(seed, without=without) for seed in seeds]
    with tempfile.TemporaryDirectory() as folder:
        played = asyncio.run(play(worlds, Path(folder), speed=speed))
    figures = judge(worlds, played)
    failing = {finding.seed for finding in figures.findings}
    for each in worlds:
        if stories is not None and each.seed in failing:
            lines = [*story(each, played), *figures.lines()]
            (stories / f"{each.seed}.txt").write_text("\n".join(lines))
    return figures


def _play_single(
    seed: int, *, speed: float, is_beside: bool, without: frozenset[Ingredient]
) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    first = seed - seed % BATCH
    seeds = range(first, first + BATCH) if is_beside else (seed,)
    worlds = [world(each, without=without) for each in seeds]
    with tempfile.TemporaryDirectory() as folder:
        played = asyncio.run(play(worlds, Path(folder), speed=speed))
    alone = next(each for each in worlds if each.seed == seed)
    figures = judge([alone], played)
    for line in (*story(alone, played), *figures.lines(), figures.summary()):
        print(line)  # noqa: T201 - a command
    return 1 if figures.findings else 0


if __name__ == "__main__":
    sys.exit(main())
