"""Actions of users on the runs of a workspace."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.runs import RunKey, RunKind


class Rerun(Struct, frozen=True, kw_only=True, tag=True):
    """Run again what a run has run. One execution id starts one run, however often it is sent."""

    kind: RunKind
    id: str
    execution_id: str


class Cancel(Struct, frozen=True, kw_only=True, tag=True):
    """Cancel a run that has not ended."""

    kind: RunKind
    id: str


Action = Rerun | Cancel


class ActionResult(Struct, frozen=True, kw_only=True):
    """What was done, in one sentence, and the run that was started, where its id is known."""

    detail: str
    run: RunKey | None = None
