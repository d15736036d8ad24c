"""Plays worlds by hand: ``python -m tests.worlds [--seed N] [--worlds N] [--speed N]``.

``--only SEED`` plays a single world and prints all that happened in it, ``--beside`` with the
other worlds of its batch. ``--postgres`` plays on databases of a server instead of files; no store
is damaged then, because a server finds out by itself what is wrong with its files. Exits 1 if
anything disagrees with the truth.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import structlog

from tests.postgres_server import server_of_worker
from tests.worlds.findings import Figures
from tests.worlds.generator import BATCH, world
from tests.worlds.history import history
from tests.worlds.judge import judge
from tests.worlds.play import SPEED, Played, play
from tests.worlds.script import Ingredient, World
from tests.worlds.store_harm import StoreDatabase


def main() -> int:
    """Play what was asked for and return the exit code."""
    options = _options()
    if not options.postgres:
        return _play_all(options, None)
    with server_of_worker() as server:
        return _play_all(options, server.url())


def _play_all(options: argparse.Namespace, server_url: str | None) -> int:
    without = frozenset(Ingredient(word) for word in options.without)
    if server_url is not None:
        without |= {Ingredient.DAMAGED_STORE}
    if options.only is not None:
        return _play_single(options, server_url, without)
    batches = [
        tuple(range(first, min(first + BATCH, options.seed + options.worlds)))
        for first in range(options.seed, options.seed + options.worlds, BATCH)
    ]
    parts: list[Figures] = []
    with ProcessPoolExecutor(max_workers=options.processes) as pool:
        tasks = [pool.submit(_play_batch, seeds, options, server_url, without) for seeds in batches]
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
    parser.add_argument("--only", type=int, help="a single seed, with its history")
    parser.add_argument("--beside", action="store_true", help="with the batch of that seed")
    parser.add_argument(
        "--histories", type=Path, help="a folder for the histories of failing worlds"
    )
    parser.add_argument("--postgres", action="store_true", help="on a server, not on files")
    parser.add_argument("--without", nargs="*", default=(), help="ingredients to leave out")
    return parser.parse_args()


def _play_batch(
    seeds: Sequence[int],
    options: argparse.Namespace,
    server_url: str | None,
    without: frozenset[Ingredient],
) -> Figures:
    worlds = [world(seed, without=without) for seed in seeds]
    played = _played(worlds, server_url, options.speed)
    figures = judge(worlds, played)
    failing = {finding.seed for finding in figures.findings}
    for each in worlds:
        if options.histories is not None and each.seed in failing:
            lines = [*history(each, played), *figures.lines()]
            options.histories.mkdir(parents=True, exist_ok=True)
            (options.histories / f"{each.seed}.txt").write_text("\n".join(lines))
    return figures


def _play_single(
    options: argparse.Namespace, server_url: str | None, without: frozenset[Ingredient]
) -> int:
    seed = options.only
    first = seed - seed % BATCH
    seeds = range(first, first + BATCH) if options.beside else (seed,)
    worlds = [world(each, without=without) for each in seeds]
    played = _played(worlds, server_url, options.speed)
    alone = next(each for each in worlds if each.seed == seed)
    figures = judge([alone], played)
    for line in (*history(alone, played), *figures.lines(), figures.summary()):
        print(line)  # noqa: T201 - a command
    return 1 if figures.findings else 0


def _played(worlds: Sequence[World], server_url: str | None, speed: float) -> Played:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if server_url is None:
            return asyncio.run(play(worlds, folder, speed=speed))
        database = StoreDatabase(server_url, f"worlds_{worlds[0].seed}", folder / "state.dump")
        stack.callback(database.delete)
        return asyncio.run(play(worlds, folder, store=database, speed=speed))


if __name__ == "__main__":
    sys.exit(main())
