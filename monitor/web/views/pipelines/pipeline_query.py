"""The query of a pipeline's page: which pipeline, and which stretch of time."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.runs import PipelineKind

_HOURS = 24
_RANGE = "How far back."


class HistoryRange(StrEnum):
    """How far back a history goes."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def length(self) -> timedelta:
        days = {HistoryRange.DAY: 1, HistoryRange.WEEK: 7, HistoryRange.MONTH: 30}
        return timedelta(hours=_HOURS * days[self])


class PipelineQuery(Struct, frozen=True, kw_only=True):
    """Which flow or plan, and how much of its past."""

    workspace: str
    kind: PipelineKind
    id: str
    range: Annotated[HistoryRange, Meta(description=_RANGE)] = HistoryRange.WEEK


class PipelineRunsQuery(PipelineQuery, frozen=True, kw_only=True):
    """Which of its runs."""

    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 25
