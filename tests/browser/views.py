"""All pages, by the path that is registered. What stands in braces is of a living workspace."""

from __future__ import annotations

VIEWS = {"/": "/"}
LIVE = "document.getElementById('link').dataset.state === 'live'"
