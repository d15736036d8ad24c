"""``python -m monitor.config FOLDER`` writes the generated files of ``config/`` anew."""

from __future__ import annotations

import sys
from pathlib import Path

from monitor.config.reference import reference_toml, schema_text


def main(arguments: list[str]) -> int:
    """Write the reference and the schema into the folder; return 2 unless one folder is given."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m monitor.config FOLDER\n")
        return 2
    folder = Path(arguments[0])
    (folder / "monitor.toml").write_text(reference_toml(), encoding="utf-8")
    (folder / "monitor.schema.json").write_text(schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
