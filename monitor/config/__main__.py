"""Writes the generated files of ``config/``: ``python -m monitor.config FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from monitor.config.reference import reference_toml, schema_text, with_rules_table


def main(arguments: list[str]) -> int:
    """Write the reference, the schema and the README's rules; return 2 unless given one folder."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m monitor.config FOLDER\n")
        return 2
    folder = Path(arguments[0])
    (folder / "monitor.toml").write_text(reference_toml(), encoding="utf-8")
    (folder / "monitor.schema.json").write_text(schema_text(), encoding="utf-8")
    readme = folder / "README.md"
    if readme.exists():
        text = with_rules_table(readme.read_text(encoding="utf-8"))
        readme.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
