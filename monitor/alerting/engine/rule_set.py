"""The rules in force, as every part of the engine uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from monitor.alerting.alerts.lifecycle import LifecycleLimits
from monitor.alerting.rules.compiled import Compiled, Rule
from monitor.alerting.rules.contract import SubjectKind
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.settings import AlertingSettings


class RuleSet(Struct, frozen=True, kw_only=True):
    """Replaced as a whole by a reload."""

    settings: AlertingSettings
    compiled: Compiled
    by_name: Mapping[str, Rule]
    # By what events of runs are to them; rules about anything else evaluate no events of runs.
    of_root_runs: Compiled  # what runs inside other runs is a part of those
    of_own_runs: Compiled  # about runs by themselves, also inside other runs
    of_pipelines: Compiled  # about flows and plans as such
    awaiting: frozenset[str]  # names of the rules that remember which starts they await
    with_deadline: frozenset[str]  # names of the rules whose deadlines are shown and counted
    limits: LifecycleLimits

    @classmethod
    def of(cls, settings: AlertingSettings) -> RuleSet:
        compiled = Compiled((*settings.rules, *settings.disabled))
        rules = compiled.rules
        of_runs = _about(SubjectKind.PIPELINE, rules)
        return cls(
            settings=settings,
            compiled=compiled,
            by_name={rule.name: rule for rule in rules},
            of_root_runs=Compiled(rule for rule in of_runs if not rule.match.kind),
            of_own_runs=Compiled(rule for rule in of_runs if rule.match.kind),
            of_pipelines=Compiled(_about(SubjectKind.FLOW_OR_PLAN, rules)),
            awaiting=_names(RuleKind.SCHEDULE_MISSED, rules),
            with_deadline=_names(RuleKind.DEADLINE_MISSED, rules),
            limits=LifecycleLimits(
                flap_count=settings.flap_count,
                flap_seconds=settings.flap_seconds,
                resolved_kept_seconds=settings.resolved_kept_seconds,
            ),
        )


def _about(subject_kind: SubjectKind, rules: Iterable[Rule]) -> list[RuleSettings]:
    return [rule.settings for rule in rules if rule.definition.subject_kind is subject_kind]


def _names(kind: RuleKind, rules: Iterable[Rule]) -> frozenset[str]:
    return frozenset(rule.name for rule in rules if rule.settings.rule is kind)
