"""A program as it may be one version later: the same, with one more migration of the schema."""

from __future__ import annotations

import shutil
from pathlib import Path

import monitor

_MIGRATION = """-- works with: 1
ALTER TABLE run ADD COLUMN later{version} text;
ALTER TABLE daemon ADD COLUMN later{version} integer NOT NULL DEFAULT 0;
"""


def newer_program(folder: Path, version: int) -> Path:
    """Return a folder to be searched for modules first, in which the schema has this version."""
    newer = folder / f"version{version}"
    package = Path(str(monitor.__file__)).parent
    shutil.copytree(package, newer / "monitor")
    schema = newer / "monitor" / "bus" / "postgres" / "schema"
    newest = int(max(path.name for path in schema.glob("*.sql"))[:4])
    for number in range(newest + 1, version + 1):
        (schema / f"{number:04}_later.sql").write_text(_MIGRATION.format(version=number))
    return newer
