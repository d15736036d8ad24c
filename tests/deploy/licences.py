"""Writes the licence list of a CycloneDX bill of materials: ``python -m tests.deploy.licences``.

It asks for nothing but Python, because `make sbom` needs no environment of the tests.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def licences_of(component: dict[str, Any]) -> list[str]:
    """Return the licences that a component declares: an expression, ids, else names."""
    declared = component.get("licenses", [])
    expressions = [entry["expression"] for entry in declared if "expression" in entry]
    known = [entry["license"] for entry in declared if "license" in entry]
    ids = [licence["id"] for licence in known if "id" in licence]
    names = [licence["name"].rpartition(":: ")[2] for licence in known if "name" in licence]
    return expressions or ids or names


def rows(bill: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and licences of each component, by name."""
    for component in sorted(bill["components"], key=lambda part: str(part["name"]).lower()):
        licences = " and ".join(licences_of(component)) or "not declared"
        yield component["name"], component["version"], licences


def main(bill: str, licences: str) -> None:
    """Write the list beside the bill."""
    with Path(licences).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "version", "licences"))
        writer.writerows(rows(json.loads(Path(bill).read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
