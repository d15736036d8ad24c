"""Writes the document of all routes: ``python -m tests.web.write_routes deploy/ROUTES.md``."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from monitor.web.routes_reference import routes_markdown
from tests.web.people import PEOPLE
from tests.web.serving import serving


async def document(folder: Path) -> str:
    async with serving(folder, PEOPLE) as site:
        return routes_markdown(site.server.routes())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        Path(sys.argv[1]).write_text(asyncio.run(document(Path(made))))
