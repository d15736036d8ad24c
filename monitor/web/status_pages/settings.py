"""The settings of status pages: which pipelines each shows, under which names, and to whom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple, Self
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from monitor.model.errors import ConfigurationError
from monitor.model.mute_windows import time_zone_problem
from monitor.model.runs import PipelineKind
from monitor.model.settings import StartSetting, each_readable, not_empty, one_line

_NAME = "^[a-z0-9][a-z0-9_-]{0,62}$"
_LONGEST_NAME = 100  # characters, of what a pipeline is shown as
_MOST_PIPELINES = 100


class ShownPipeline(NamedTuple):
    """One flow or plan by its address, as ``[[status_pages]]`` has it."""

    workspace: str
    kind: PipelineKind
    id: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the pipeline of an address such as ``marketing/flow/101``.

        Raises:
            ConfigurationError: it is none.
        """
        workspace, kind, pipeline_id, *more = (*text.split("/"), "", "")
        if more != ["", ""] or not workspace or not pipeline_id or kind not in list(PipelineKind):
            raise ConfigurationError(
                f"{text[:80]!r} is no pipeline; write WORKSPACE/flow/ID or WORKSPACE/plan/ID, as "
                "in the address of its page"
            )
        return cls(workspace, PipelineKind(kind), pipeline_id)


def _page_name(name: str) -> str | None:
    if re.fullmatch(_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a part of an address"
    return None


def _pipelines(named: Mapping[str, str]) -> str | None:
    if not 0 < len(named) <= _MOST_PIPELINES:
        return f"name 1 to {_MOST_PIPELINES} pipelines"
    for name in named:
        if len(name) > _LONGEST_NAME:
            return f"{name[:_LONGEST_NAME]!r}... is over {_LONGEST_NAME} characters"
        if (problem := one_line(name)) is not None:
            return f"{name!r} {problem}"
    return each_readable(ShownPipeline.of)(named.values())


def _origins(origins: list[str]) -> str | None:
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
            return 'each must be an origin such as "https://wiki.example.com", without a path'
        if re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", parts.netloc) is None:
            return f"{origin[:80]!r} names no host"
    return not_empty(origins)


class StatusPageSettings(Struct, frozen=True, kw_only=True):
    """A page at /status/NAME for those who wait for data. Repeat the table for each further one.

    It says of each pipeline since when it has been well, when it succeeded last and by when it
    will next; it names no run, no owner and no reason.
    """

    name: Annotated[
        str,
        Meta(pattern=_NAME),
        StartSetting("Its name in the address.", "finance", check=_page_name),
    ]
    shows: Annotated[
        dict[str, str],
        StartSetting(
            "Flows and plans by the names that are shown, in their order.",
            {"Orders of yesterday": "marketing/flow/101"},
            check=_pipelines,
        ),
    ]
    title: Annotated[
        str | None, StartSetting("What stands above it.", "Data of the finance team", one_line)
    ] = None
    time_zone: Annotated[
        str,
        StartSetting(
            "The time zone of its times and of today.", "Europe/Berlin", time_zone_problem
        ),
    ] = "UTC"
    public: Annotated[
        bool, StartSetting("Show it to all who can reach the server, without log-in.")
    ] = False
    embedded_in: Annotated[
        tuple[str, ...],
        StartSetting(
            "Origins of pages that may show it inside (an iframe); others may not.",
            ["https://wiki.example.com"],
            check=_origins,
        ),
    ] = ()

    @property
    def pipelines(self) -> dict[str, ShownPipeline]:
        """The pipelines by the names that are shown."""
        return {name: ShownPipeline.of(text) for name, text in self.shows.items()}
