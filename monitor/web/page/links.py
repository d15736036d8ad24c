"""The addresses of the pages that rows lead to."""

from __future__ import annotations

from urllib.parse import quote


def run_path(workspace: str, kind: str, run_id: str) -> str:
    return _path("runs", workspace, kind, run_id)


def pipeline_path(workspace: str, kind: str, pipeline_id: str) -> str:
    return _path("pipelines", workspace, kind, pipeline_id)


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)
