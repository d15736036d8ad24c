"""The rules in force, as every part of the engine uses them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from monitor.alerting.alerts.lifecycle import LifecycleLimits
from monitor.alerting.rules.compiled import Compiled, Rule
from monitor.alerting.rules.contract import SubjectKind
from monitor.alerting.rules.rule_settings import RuleKind
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
    limits: LifecycleLimits

    @classmethod
    def of(cls, settings: AlertingSettings) -> RuleSet:
        compiled = Compiled.of(settings.rules)
        rules = compiled.rules
        of_runs = [rule for rule in rules if _is_about(rule, SubjectKind.PIPELINE)]
        return cls(
            settings=settings,
            compiled=compiled,
            by_name={rule.name: rule for rule in rules},
            of_root_runs=Compiled(rule for rule in of_runs if not rule.names_kind),
            of_own_runs=Compiled(rule for rule in of_runs if rule.names_kind),
            of_pipelines=Compiled(
                rule for rule in rules if _is_about(rule, SubjectKind.FLOW_OR_PLAN)
            ),
            awaiting=frozenset(
                rule.name for rule in rules if rule.settings.rule is RuleKind.SCHEDULE_MISSED
            ),
            limits=LifecycleLimits(
                flap_count=settings.flap_count,
                flap_seconds=settings.flap_seconds,
                resolved_kept_seconds=settings.resolved_kept_seconds,
            ),
        )


def _is_about(rule: Rule, subject_kind: SubjectKind) -> bool:
    return rule.definition.subject_kind is subject_kind
