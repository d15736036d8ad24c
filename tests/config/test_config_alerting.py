"""Rules and silences: each problem is one sentence with a hint, and what has none can be used."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from monitor.alerting.settings import (
    DEFAULT_RULES,
    RULE_DEFINITIONS,
    AlertingSettings,
    Match,
    RuleKind,
    SilenceSettings,
    default_rule,
)
from monitor.model.alerts import Severity
from tests.config.settings_tables import (
    everything,
    file,
    parsed,
    problems,
    silence,
    with_rules,
)

IN_A_ROW = (
    "1 and more: failures in a row; below 1: the failed part of the last runs, over at half of it"
)
A_LABEL = "a label is letters, digits and _, with no digit and not __ first"


def alert(rule: str, **changes: Any) -> dict[str, Any]:
    return {"rule": rule, **changes}


RULE_PROBLEMS: tuple[tuple[dict[str, Any], str], ...] = (
    (
        alert("run_failed", threshold=3),
        "threshold: 3.0: the rule run_failed has no such number; remove it",
    ),
    (
        alert("queue_slow", threshold=0),
        "threshold: 0.0: must be 1 to 2,592,000 for queue_slow: seconds from creation to start",
    ),
    (
        alert("queue_slow", minimum=3),
        "minimum: 3: the rule queue_slow has no such number; remove it",
    ),
    (
        alert("run_overdue", minimum=9),
        "minimum: 9: must be 10 to 200 for run_overdue: runs that a limit is learned from",
    ),
    (
        alert("failing_repeatedly", threshold=2.5),
        (f"threshold: 2.5: must be whole from 1 on, such as 2, for failing_repeatedly: {IN_A_ROW}"),
    ),
    (
        alert("failing_repeatedly", threshold=20.5),
        (f"threshold: 20.5: must be 0.01 to 20 for failing_repeatedly: {IN_A_ROW}"),
    ),
    (
        alert("run_failed", window_seconds=60),
        "window_seconds: 60.0: the rule run_failed has no such number; remove it",
    ),
    (
        alert("run_failed", labels={"team-name": "x"}),
        f'labels.team-name: "x": {A_LABEL}; did you mean team_name?',
    ),
    (
        alert("run_failed", labels={"2nd": "x"}),
        f'labels.2nd: "x": {A_LABEL}; did you mean _2nd?',
    ),
    (
        alert("run_failed", labels={"__name": "x"}),
        f'labels.__name: "x": {A_LABEL}; did you mean name?',
    ),
    (
        alert("run_failed", labels={"é": "x"}),
        f'labels.é: "x": {A_LABEL}',
    ),
    (
        alert("run_failed", labels={"severity": "page"}),
        (
            'labels.severity: "page": every alert has this label already; the key severity '
            "sets it; "
            "choose another, such as own_severity"
        ),
    ),
    (
        alert("run_failed", labels={"workspace": "x"}),
        (
            'labels.workspace: "x": every alert has this label already; choose another, such as '
            "own_workspace"
        ),
    ),
    (
        alert("run_failed", labels={"team": ""}),
        'labels.team: "": must be one line of 1 to 200 characters',
    ),
    (
        alert("run_failed", labels={"team": "a\nb"}),
        'labels.team: "a\\nb": must be one line of 1 to 200 characters',
    ),
    (alert("run_failed", labels={"team": 5}), "labels.team: 5: must be a text in quotes"),
    (
        alert("run_failed", annotations={"summary": "{pipelin} failed"}),
        (
            'annotations.summary: "{pipelin} failed": there is no field {pipelin}; '
            "did you mean pipeline?"
        ),
    ),
    (
        alert("canceled", annotations={"summary": "{error}"}),
        (
            f'annotations.summary: "{{error}}": there is no field {{error}}; there are '
            f"{', '.join(RULE_DEFINITIONS[RuleKind.CANCELED].annotation_fields)}"
        ),
    ),
    (
        alert("run_failed", annotations={"summary": "{starts_at:duration}"}),
        (
            'annotations.summary: "{starts_at:duration}": :duration does not fit starts_at; '
            "write {starts_at:time}"
        ),
    ),
    (
        alert("run_failed", annotations={"summary": "{error"}),
        (
            'annotations.summary: "{error": has a brace without its other half; '
            "write {{ and }} for braces that are meant"
        ),
    ),
    (
        alert("run_failed", annotations={"run-book": "x"}),
        (
            'annotations.run-book: "x": the name of an annotation is letters, digits and _, '
            "with no digit and not __ first; did you mean run_book?"
        ),
    ),
    (
        alert("workspace_unreachable", match={"pipeline": "Orders"}),
        'match.pipeline: ["Orders"]: workspace_unreachable has only workspace; remove this',
    ),
    (
        alert("monitor_degraded", match={"workspace": "bridge"}),
        'match.workspace: ["bridge"]: monitor_degraded has nothing to match by; remove this',
    ),
    (
        alert("not_fresh", match={"trigger": "schedule"}),
        (
            'match.trigger: ["schedule"]: not_fresh has only workspace, kind, pipeline, '
            "folder, owner; "
            "remove this"
        ),
    ),
    (
        alert("not_fresh", match={"kind": "job_group"}),
        (
            'match.kind: ["job_group"]: no kind of run of not_fresh fits "job_group"; '
            "there are flow_run, plan_run"
        ),
    ),
    (
        alert("run_failed", name="canceled"),
        'name: "canceled": is the name of another rule, and this one is run_failed; choose another',
    ),
    (
        alert("run_failed", expect="0 0 6 * * ?"),
        'expect: "0 0 6 * * ?": is for schedule_missed, and this rule is run_failed; remove it',
    ),
    (
        alert("run_failed", expect_timezone="UTC"),
        'expect_timezone: "UTC": is for schedule_missed, and this rule is run_failed; remove it',
    ),
    (
        alert("schedule_missed", name="orders", expect="0 0 6 * * ?"),
        'expect: "0 0 6 * * ?": does not say whose runs; add pipeline to [alerts.match]',
    ),
    (
        alert("schedule_missed", expect="0 0 6 * * ?", match={"pipeline": "Orders"}),
        (
            'expect: "0 0 6 * * ?": would replace the evaluation of visible schedules; '
            "give the rule another name"
        ),
    ),
    (
        alert("callbacks_missed"),
        'rule: "callbacks_missed": sees nothing of marketing; add [workspaces.callbacks]',
    ),
    (
        alert("run_failed", for_secnds=5),
        "for_secnds: 5: unknown key; did you mean for_seconds?",
    ),
    (
        alert("run_failed", pipeline="Orders"),
        'pipeline: "Orders": belongs elsewhere: [alerts.match] pipeline',
    ),
    (
        alert("run_failed", match={"pipelines": "Orders"}),
        'match.pipelines: "Orders": unknown key; did you mean pipeline?',
    ),
    (
        alert("run_failed", match="Orders"),
        'match: "Orders": must be a table: write [alerts.match] above its keys',
    ),
)


@pytest.mark.parametrize(("table", "sentence"), RULE_PROBLEMS, ids=lambda text: str(text)[:60])
def test_a_rule_that_cannot_be_meant_is_one_problem(table: dict[str, Any], sentence: str) -> None:
    """Key, value and hint; and no other problem."""
    assert problems(with_rules(table)) == [f"alerts[0].{sentence}"]


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        (file(alerts=3), "alerts: 3: must be tables: write [[alerts]] above the keys of each"),
        (
            file(alerts=alert("run_failed")),
            "alerts: (a table): there may be several: write [[alerts]]",
        ),
        (
            file(alerts=["run_failed"]),
            'alerts[0]: "run_failed": must be a table: write [[alerts]] above its keys',
        ),
        (
            with_rules(alert("run_failed"), alert("run_failed")),
            'alerts[1].name: "run_failed": is the name of alerts[0] already; choose another',
        ),
        (
            with_rules(alert("run_failed", name="a"), alert("canceled", name="a")),
            'alerts[1].name: "a": is the name of alerts[0] already; choose another',
        ),
        (
            with_rules(alert("run_failed"), alert("run_failed", name="Sales Failed")),
            (
                'alerts[1].name: "Sales Failed": use 1 to 63 of a-z, 0-9, _ and -, not _ or - '
                "first; it is a label and a topic level"
            ),
        ),
        (file(alert=[]), "alert: []: unknown key; did you mean alerts?"),
        (
            file(silences=[silence(starts_at=datetime(2027, 1, 1, tzinfo=UTC))]),
            (
                'silences[0].ends_at: "2026-12-24 18:00:00+00:00": 2026-12-24T18:00:00Z is not '
                "after "
                "the start 2027-01-01T00:00:00Z"
            ),
        ),
        (
            file(silences=[silence(ends_at=datetime(2026, 12, 24, 18))]),  # noqa: DTZ001 - so it was written
            (
                'silences[0].ends_at: "2026-12-24 18:00:00": must be a date and time with its '
                "offset, "
                "without quotes, such as 2026-11-21T18:00:00Z"
            ),
        ),
        (
            file(silences=[silence(matchers=["workspace=marketting"])]),
            (
                "silences[0].matchers: [\"workspace=marketting\"]: 'workspace=marketting': no "
                "workspace fits 'marketting'; did you mean marketing?"
            ),
        ),
        (
            file(silences=[silence(matchers=["alertname=run_faild"])]),
            (
                "silences[0].matchers: [\"alertname=run_faild\"]: 'alertname=run_faild': no "
                "alertname fits 'run_faild'; did you mean run_failed?"
            ),
        ),
        (
            with_rules(
                alert("run_failed", name="Bad Name"), silences=[silence(matchers=["alertname=x"])]
            ),
            (
                'alerts[0].name: "Bad Name": use 1 to 63 of a-z, 0-9, _ and -, not _ or - '
                "first; it is a label and a topic level"
            ),
        ),
        (
            file(silences=[silence(matchers=["team=x"])]),
            (
                "silences[0].matchers: [\"team=x\"]: 'team=x': no alert has a label 'team': there "
                "are "
                "alertname, kind, output, part, pipeline, pipeline_id, rule, schedule, severity, "
                "token_id, workspace"
            ),
        ),
    ],
)
def test_lists_and_silences_are_validated_too(mapping: dict[str, Any], sentence: str) -> None:
    """A list that is none, two rules of one name, and a silence that never is."""
    assert problems(mapping) == [sentence]


def test_the_keys_of_the_webhook_stay_unseen() -> None:
    """A problem of a secret is reported without the secret."""
    mapping = everything()
    mapping["webhook"]["secret_file"] = "/run/secrets/short"
    assert problems(mapping) == [
        (
            "webhook.secret: ***: must be whsec_ and 24 to 64 bytes in base64; "
            "make one with: echo whsec_$(openssl rand -base64 32)"
        )
    ]


def test_without_configuration_the_default_rules_are_there() -> None:
    """Nothing has to be written for alerts that are useful."""
    assert parsed(file()).alerting == AlertingSettings()
    assert parsed(file()).alerting.rules == DEFAULT_RULES


def test_a_rule_takes_from_its_kind_what_it_does_not_set() -> None:
    """Annotations are laid over those of the default; all else is as written or as in it."""
    (rule,) = parsed(
        with_rules(
            alert(
                "failing_repeatedly",
                name="sales_keeps_failing",
                threshold=0.5,
                labels={"team": "sales"},
                annotations={"runbook": "https://wiki/{pipeline}"},
                mute=["Sat,Sun Europe/Berlin"],
                match={"workspace": "market*", "pipeline": ["Orders", "Sales*"]},
            ),
            alerting={"defaults": False, "evaluation_interval_seconds": 1},
        )
    ).alerting.rules
    base = default_rule(RuleKind.FAILING_REPEATEDLY)

    assert (rule.name, rule.threshold, rule.minimum) == ("sales_keeps_failing", 0.5, 4)
    assert rule.severity is Severity.CRITICAL
    assert rule.labels == {"team": "sales"}
    assert rule.annotations == {**base.annotations, "runbook": "https://wiki/{pipeline}"}
    assert rule.match == Match(workspace=("market*",), pipeline=("Orders", "Sales*"))


def test_a_rule_named_like_a_default_replaces_or_removes_it() -> None:
    """The others stay, in their order; what was removed is known to explanations alone."""
    configuration = parsed(
        with_rules(
            alert("run_failed", severity="warning"),
            alert("not_fresh", enabled=False),
            alert("canceled"),
        )
    )
    rules = {rule.name: rule for rule in configuration.alerting.rules}
    assert rules["run_failed"].severity is Severity.WARNING
    assert set(rules) == {*(rule.name for rule in DEFAULT_RULES), "canceled"} - {"not_fresh"}
    assert [rule.name for rule in configuration.alerting.disabled] == ["not_fresh"]


def test_a_silence_may_name_a_rule_of_ones_own() -> None:
    """The names of the file are known, beside those of the default rules where these are there."""
    own = alert("run_failed", name="sales_failed")
    named = [silence(matchers=["alertname=sales_failed"])]
    assert len(parsed(with_rules(own, silences=named)).alerting.silences) == 1
    default = [silence(matchers=["alertname=run_failed"])]
    assert len(parsed(with_rules(own, silences=default)).alerting.silences) == 1
    (problem,) = problems(with_rules(own, silences=default, alerting={"defaults": False}))
    assert "no alertname fits 'run_failed'; did you mean sales_failed?" in problem


def test_expected_times_arrive_in_quartz() -> None:
    """Plain cron is turned into Quartz's words, so that one reading follows."""
    rule = alert(
        "schedule_missed",
        name="orders_started",
        expect="30 6 * * 1-5",
        expect_timezone="Europe/Berlin",
        match={"pipeline": "Orders"},
    )
    found = parsed(with_rules(rule)).alerting.rules[-1]
    assert (found.expect, found.expect_timezone) == ("0 30 6 ? * MON-FRI", "Europe/Berlin")


def test_a_silence_is_as_it_was_written() -> None:
    """Its labels may be those of a rule of one's own; one that is over stays readable."""
    over = datetime(2020, 1, 1, tzinfo=UTC)
    mapping = with_rules(alert("run_failed", labels={"team": "sales"}))
    mapping["silences"] = [silence(matchers=["team=sales"], ends_at=over)]
    assert parsed(mapping).alerting.silences == (
        SilenceSettings(matchers=("team=sales",), comment="The warehouse moves.", ends_at=over),
    )
