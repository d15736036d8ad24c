"""Which pipelines are silenced, by what a failed run of them would be labelled."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.alerts import Silence
from monitor.model.runs import RUN_KINDS, PipelineKind
from monitor.model.silencing import NamedAs, Silenced, fits, matchers_of, silenced_of

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
FLOW, PLAN = PipelineKind.FLOW, PipelineKind.PLAN
PIPELINES: tuple[NamedAs, ...] = (
    ("acme", FLOW, "1", "orders"),
    ("acme", FLOW, "2", "daily sales"),
    ("acme", PLAN, "3", "month end"),
    ("sales", FLOW, "1", "orders"),
    ("sales", FLOW, "5", "daily costs"),
)


def a_silence(*matchers: str, starts_at: datetime = NOW, ends_at: datetime = NOW + HOUR) -> Silence:
    return Silence(
        id="5d3c",
        matchers=matchers,
        author="ann",
        comment="planned",
        starts_at=starts_at,
        ends_at=ends_at,
        origin="api",
    )


def judged(*silences: Silence, workspaces: tuple[str, ...] = ("acme", "sales")) -> Silenced:
    return silenced_of(silences, workspaces=workspaces, pipelines=PIPELINES, now=NOW)


@pytest.mark.parametrize(
    ("matchers", "words"),
    [
        (("pipeline=*",), "5 of 5 pipelines are silenced (all of acme, sales)"),
        (("workspace=acme",), "3 of 5 pipelines are silenced (all of acme)"),
        (("workspace!=acme",), "2 of 5 pipelines are silenced (all of sales)"),
        (("severity=critical",), "5 of 5 pipelines are silenced (all of acme, sales)"),
        (("severity!=critical",), None),
        (("rule=run_failed", "workspace=sales"), "2 of 5 pipelines are silenced (all of sales)"),
        (("rule=queue_slow",), None),
        (("pipeline=orders",), None),
        (("pipeline=daily*",), None),
        (("pipeline!=orders",), "3 of 5 pipelines are silenced"),
        (("kind=job_group",), None),  # flow runs are still notified
        (("kind=plan_run", "pipeline_id=3"), None),
        (("team=night",), None),
        (("team!=night",), "5 of 5 pipelines are silenced (all of acme, sales)"),
    ],
)
def test_more_than_half_or_a_workspace_is_said(
    matchers: tuple[str, ...], words: str | None
) -> None:
    """By one silence of each form; what leaves the alert of a failed run alone silences nothing."""
    assert judged(a_silence(*matchers)).words == words


def test_several_silences_count_together() -> None:
    """Neither silences most of them alone."""
    first, second = a_silence("pipeline=orders"), a_silence("pipeline_id=2")
    assert judged(first).words is None
    assert judged(second).words is None
    assert judged(first, second).words == "3 of 5 pipelines are silenced"


@pytest.mark.parametrize(
    "times",
    [
        {"starts_at": NOW + HOUR, "ends_at": NOW + 2 * HOUR},
        {"starts_at": NOW - HOUR, "ends_at": NOW},
    ],
)
def test_only_active_silences_count(times: dict[str, datetime]) -> None:
    """Neither what begins later nor what has ended; how many are known is said all the same."""
    found = judged(a_silence("pipeline=*", **times))
    assert found.words is None
    assert [(share.silenced, share.pipelines) for share in found.shares] == [(0, 3), (0, 2)]


def test_a_workspace_without_pipelines_is_silenced_by_its_own_alerts() -> None:
    """Nothing of it is known yet; that it cannot be reached would notify no one."""
    found = judged(a_silence("workspace=new"), workspaces=("new",))
    assert found.words == "all of new is silenced"
    assert judged(a_silence("pipeline=orders"), workspaces=("new",)).words is None


_GLOBS = st.sampled_from(
    (
        *("*", "orders", "daily*", "?cme", "acme", "1", "2", "job_group", "", "x"),
        *("*ly*s", "d?i*", "[do]*s", "*[a-c]o*", "s[", "*s*", "*\0*", "rs*d", "*_run"),
    )
)
_MATCHERS = st.tuples(
    st.sampled_from(("workspace", "pipeline", "pipeline_id", "kind", "severity", "rule")),
    st.sampled_from(("=", "!=")),
    _GLOBS,
).map("".join)


@given(st.lists(st.lists(_MATCHERS, min_size=1, max_size=3), max_size=4))
def test_the_index_finds_what_a_comparison_of_all_finds(written: list[list[str]]) -> None:
    """A pipeline is silenced where each kind of its runs has a silence that fits its alert."""
    silences = [a_silence(*matchers) for matchers in written]
    expected: dict[str, int] = {"acme": 0, "sales": 0}
    for workspace, kind, pipeline_id, label in PIPELINES:
        expected[workspace] += all(
            any(
                fits(
                    matchers_of(silence.matchers),
                    {
                        "alertname": "run_failed",
                        "rule": "run_failed",
                        "severity": "critical",
                        "workspace": workspace,
                        "kind": run_kind,
                        "pipeline": label,
                        "pipeline_id": pipeline_id,
                    },
                )
                for silence in silences
            )
            for run_kind in RUN_KINDS[kind]
        )
    found = judged(*silences)
    assert {share.workspace: share.silenced for share in found.shares} == expected


def seconds_of(globs: int, *, run: int) -> float:
    """Return how long so many silences take over two thousand pipelines, by the processor."""
    pipelines = [("acme", FLOW, f"{run}-{n}", f"orders of region {n:04d}") for n in range(2_000)]
    silences = [a_silence(f"pipeline=*region {n:04d}*") for n in range(globs)]
    began = time.process_time()
    found = silenced_of(silences, workspaces=("acme",), pipelines=pipelines, now=NOW)
    assert found.shares[0].silenced == globs
    return time.process_time() - began


def test_a_thousand_globs_cost_little_more_than_one() -> None:
    """A silence searches all names at once, and compares only those that it may fit."""
    few = min(seconds_of(1, run=run) for run in range(3))
    many = min(seconds_of(1_000, run=run) for run in range(3))
    assert many < 15 * few
