"""Lets schemathesis send a sandbox all that its specification allows, and check the answers.

``python -m tests.sandbox.fuzzing RL --examples 100`` does it at length, for one edition.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from monitor.catalogue.operations import Edition, operation
from monitor.sandbox.world.records.objects import Record
from tests.sandbox.http_workspace import OWNER_TOKEN, Workspace, open_workspace
from tests.sandbox.samples.sample import Living
from tests.sandbox.samples.table import SAMPLES, furnish

# Left out: that wrong methods are 405 (here they are 404, as in the real workspace), and that
# whatever the schema does not allow is refused (the sandbox is as lenient as clients need).
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
PHASES = "examples,fuzzing"
HOOKS = "tests.sandbox.fuzzing_hooks"
KNOWN_VARIABLE = "FUZZING_KNOWN"
_SECONDS_A_REQUEST = 3.0
_ROOT = Path(__file__).parents[2]
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class Report(Struct, frozen=True, kw_only=True):
    """How a run of schemathesis ended. ``operations`` are how many it tested."""

    exit_code: int
    text: str

    @property
    def operations(self) -> int:
        found = re.search(r"Tested: *(\d+)", self.text)
        return int(found.group(1)) if found else 0


class Healing:
    """Brings back what was in the world at first, so that deletions spoil nothing for the rest."""

    def __init__(self, living: Living) -> None:
        """Remember all that is there now."""
        world = living.workspace.world
        self._records: list[Record] = [
            other_kind for kind in world.kinds() for other_kind in world.shelf(kind)
        ]
        self._clock = living.workspace.clock
        self._advancing: asyncio.Task[None] | None = None

    def __call__(self, operation_id: str, query: Any) -> None:
        """Heal before a request is served, and after it: it may delete its own token.

        Time passes with requests, so that quotas are used up now and then, but not forever.
        """
        del operation_id, query
        self._heal()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._heal)
        if self._advancing is None or self._advancing.done():
            self._advancing = loop.create_task(self._clock.advance(_SECONDS_A_REQUEST))

    def _heal(self) -> None:
        for record in self._records:
            record.deleted_at = None


def known_of(living: Living) -> bytes:
    """Return the path values, bodies and files with which operations succeed, by operation id."""
    paths = {
        name: [str(value) for value in sample.path(living)]
        for name, sample in SAMPLES.items()
        if operation(name).parameters
    }
    bodies = {
        name: sample.body(living) for name, sample in SAMPLES.items() if sample.body is not None
    }
    uploads = {
        name: sample.upload(living) for name, sample in SAMPLES.items() if sample.upload is not None
    }
    return msgspec.json.encode({"paths": paths, "bodies": bodies, "uploads": uploads})


async def fuzz(
    edition: Edition,
    *,
    examples: int,
    only: Sequence[str] = (),
    phases: str = PHASES,
    seed: int = 1,
) -> Report:
    """Run schemathesis against a new sandbox; ``only`` names operations, by default all."""
    listeners: list[Any] = []
    async with open_workspace(edition, listeners=listeners) as workspace:
        living = furnish(workspace)
        living.things.owner.is_admin = True  # owns what there is, and may do everything
        listeners.append(Healing(living))
        return await _run(
            workspace,
            known_of(living),
            *("--max-examples", str(examples), "--phases", phases, "--seed", str(seed)),
            *(part for name in only for part in ("--include-operation-id", name)),
        )


async def _run(workspace: Workspace, known: bytes, *options: str) -> Report:
    with TemporaryDirectory() as folder:  # it writes files where it runs
        return await _process(folder, workspace, known, *options)


async def _process(folder: str, workspace: Workspace, known: bytes, *options: str) -> Report:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("st")),
        "run",
        f"{workspace.url}/v4/open-api-spec",
        *("-H", f"Authorization: Bearer {OWNER_TOKEN}"),
        *("--checks", ",".join(CHECKS), "--continue-on-failure", "--no-color"),
        *("--suppress-health-check", "all", "--request-timeout", "10"),
        *options,
        cwd=folder,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": HOOKS,
            "PYTHONPATH": str(_ROOT),
            KNOWN_VARIABLE: known.decode(),
        },
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Report(
        exit_code=process.returncode or 0, text=_COLORS.sub("", output.decode(errors="replace"))
    )


def main() -> int:
    """Fuzz one edition and show the output of schemathesis."""
    parser = argparse.ArgumentParser()
    parser.add_argument("edition", type=Edition)
    parser.add_argument("--examples", type=int, default=50)
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=())
    given = parser.parse_args()
    report = asyncio.run(
        fuzz(
            given.edition,
            examples=given.examples,
            only=given.only,
            phases=given.phases,
            seed=given.seed,
        )
    )
    sys.stdout.write(report.text)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
