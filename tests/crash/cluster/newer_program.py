"""A program as it may be one version later: with more columns, and more in the body of a run.

It fills the columns, reads them, and finds the field in no body of the older program; which reads
and changes the rows of the newer one, and knows nothing of either.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import monitor

_MIGRATION = """-- works with: 1
ALTER TABLE run ADD COLUMN later{version} text;
ALTER TABLE event ADD COLUMN later{version} text;
ALTER TABLE daemon ADD COLUMN later{version} integer NOT NULL DEFAULT 0;
"""
_WRITING = "bus/postgres/writing"
# File, what it has, what it has one version later.
_CHANGES = (
    (
        f"{_WRITING}/statements.py",
        "recorded_at, id, body, epoch) SELECT * FROM",
        "recorded_at, id, body, epoch, later{version}) SELECT *, 'written' FROM",
    ),
    (
        f"{_WRITING}/statements.py",
        '" pipeline_id, body) SELECT * FROM',
        "\" pipeline_id, body, later{version}) SELECT *, 'written' FROM",
    ),
    (
        f"{_WRITING}/statements.py",
        "pipeline_id = excluded.pipeline_id, body = excluded.body",
        (
            "pipeline_id = excluded.pipeline_id, body = excluded.body,"
            " later{version} = excluded.later{version}"
        ),
    ),
    (
        f"{_WRITING}/rows.py",
        "from msgspec import Struct\n",
        "from msgspec import Struct, structs\n",
    ),
    (
        f"{_WRITING}/rows.py",
        "codec.encode(run),",
        'codec.encode(structs.replace(run, later{version}="written")),',
    ),
    (
        "bus/postgres/reading/stored_runs.py",
        "SELECT body FROM run WHERE workspace = $1 AND ended_at",
        "SELECT body, later{version} FROM run WHERE workspace = $1 AND ended_at",
    ),
    (
        "model/runs.py",
        "    confirmed_by: Source\n\n    @property",
        "    confirmed_by: Source\n    later{version}: str = ''\n\n    @property",
    ),
)


def newer_program(folder: Path, version: int) -> Path:
    """Return a folder to be searched for modules first, in which the schema has this version."""
    newer = folder / f"version{version}"
    if newer.exists():
        return newer
    package = newer / "monitor"
    shutil.copytree(Path(str(monitor.__file__)).parent, package)
    schema = package / "bus" / "postgres" / "schema"
    newest = int(max(path.name for path in schema.glob("*.sql"))[:4])
    for number in range(newest + 1, version + 1):
        (schema / f"{number:04}_later.sql").write_text(_MIGRATION.format(version=number))
    for file, text, later in _CHANGES:
        source = (package / file).read_text()
        assert source.count(text) == 1, f"{file} has {source.count(text)} times {text}"
        later_text = later.replace("{version}", str(version))
        (package / file).write_text(source.replace(text, later_text))
    return newer
