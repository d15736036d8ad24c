"""A server with a workspace that some of its users must not see, and something of everything."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from monitor.model.alerts import AlertState
from monitor.model.live_state import PollStatus, Reachability, ReachabilityStretch
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Status
from monitor.web.principals import Role
from tests.pipeline_healths import end_at, health_after, show
from tests.web.people import ENTRIES, PEOPLE, entry
from tests.web.serving import serving
from tests.web.site import Site

HIDDEN = "betriebe"
OUTAGE_AT = datetime(2026, 11, 21, 8, tzinfo=UTC)  # each workspace was not seen for an hour then
SETTINGS = msgspec.structs.replace(
    PEOPLE,
    access=(entry("reader", Role.ADMIN, workspaces=("acme*",)), *ENTRIES),
)
# What else there is may show in the place of the newest event, and in what is asked for the time.
MASKED = re.compile(r'"next":("[^"]*"|\d+)|token" value="[^"]*"|/static/[^"]*|data-as-of="[^"]*"')


async def _fill(site: Site, workspace: str) -> None:
    """Let a workspace have something of everything, all of it named after it."""
    now, name = site.clock.now(), f"orders of {workspace}"
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=f"id-of-{workspace}", name=name)
    of: dict[str, Any] = {"pipeline": pipeline}
    for number, status in enumerate((Status.FAILED, Status.SUCCEEDED, Status.RUNNING)):
        key = RunKey(workspace, RunKind.JOB_GROUP, f"{workspace}-{number}")
        await site.observe(site.run(key.id, status, key=key, error=f"no {workspace}", **of))
    end = end_at(now, Status.FAILED, run_id=f"{workspace}-0")
    show(site.live_state, health_after(end, pipeline=pipeline, workspace=workspace))
    site.live_state.polls[workspace, "job_groups"] = PollStatus(
        workspace=workspace,
        poll="job_groups",
        last_attempt_at=now,
        last_success_at=None,
        last_outcome=PollOutcome.UNREACHABLE,
    )
    end_of_outage = OUTAGE_AT + timedelta(hours=1)
    site.live_state.reachability[workspace] = (
        ReachabilityStretch(
            reachability=Reachability.UNREACHABLE,
            since=OUTAGE_AT,
            until=end_of_outage,
            reason=f"no {workspace}",
        ),
        ReachabilityStretch(reachability=Reachability.REACHABLE, since=end_of_outage, until=now),
    )
    alerting = site.alerting
    alerting.known_runs.add(RunKey(workspace, RunKind.JOB_GROUP, f"{workspace}-0"))
    alerting.known_pipelines.add((workspace, PipelineKind.FLOW, pipeline.id))
    labels = {"alertname": "run_failed", "pipeline": name, "workspace": workspace}
    about: dict[str, Any] = {"workspace": workspace, "labels": labels, "pipeline": pipeline}
    about |= {"templates": {"summary": f"{name} has failed"}, "evidence": ()}
    about["run"] = RunKey(workspace, RunKind.JOB_GROUP, f"{workspace}-0")
    fires = alerting.alert(f"fires-{workspace}", **about)
    over = alerting.alert(
        f"over-{workspace}",
        **about,
        state=AlertState.RESOLVED,
        ends_at=now - timedelta(minutes=1),
    )
    alerting.over[over.fingerprint] = [over]
    silence = alerting.silence(
        f"silence-{workspace}", matchers=(f"workspace={workspace}",), comment=f"by {workspace}"
    )
    alerting.show(
        *alerting.snapshot.alerts,
        fires,
        silences=(*alerting.snapshot.silences, silence),
        missed={**alerting.snapshot.missed, (workspace, RunKind.JOB_GROUP, pipeline.id): 3},
    )


def made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


@asynccontextmanager
async def world(folder: Path, *, has_more: bool) -> AsyncIterator[Site]:
    """Yield a server of one workspace, or of another one too that its readers must not see."""
    workspaces = ("acme", HIDDEN) if has_more else ("acme",)
    async with serving(folder, SETTINGS, workspaces=workspaces) as site:
        for workspace in workspaces:
            await _fill(site, workspace)
        if has_more:
            everything = site.alerting.silence("of-all", matchers=("severity=*",), comment=HIDDEN)
            silences = (*site.alerting.snapshot.silences, everything)
            site.alerting.show(*site.alerting.snapshot.alerts, silences=silences)
        yield site
