"""Finds contradictions in the settings of rules and silences; builds those without one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from monitor.alerting.settings import (
    DEFAULT_RULES,
    RULE_DEFINITIONS,
    SHOWN_LABELS,
    AlertingSettings,
    AnyRuleDefinition,
    Labels,
    RuleKind,
    RuleSettings,
    combined,
    default_rule,
    fits_some,
    labels_to_match,
    parse_globs,
    silence_problems,
    with_runbooks_at,
)
from monitor.config.days_off_consistency import find_days_off_of_rule
from monitor.config.deadline_consistency import find_deadline_contradictions
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.model.alert_texts import check_template
from monitor.model.errors import ConfigurationError
from monitor.schedules.written_cron import quartz_expression

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_LONGEST_LABEL = 200  # characters of a value


def find_alerting_contradictions(
    repeated: Mapping[str, list[ReadTable]], alerting: ReadTable | None, problems: Problems
) -> None:
    """Add a problem for everything about rules and silences that does not fit together."""
    alerts, workspaces = repeated["alerts"], repeated["workspaces"]
    _names(alerts, problems)
    for part in alerts:
        _labels(part, problems)
        kind = part.get("rule")
        if kind is not None:
            definition = RULE_DEFINITIONS[kind]
            _numbers(part, definition, problems)
            _annotations(part, definition, problems)
            _match(part, definition, workspaces, problems)
            _expected(part, definition, problems)
            find_deadline_contradictions(part, definition, problems)
            find_days_off_of_rule(part, definition, problems)
            _requirement(part, definition, workspaces, problems)
    with_defaults = alerting is None or alerting.get("with_defaults")
    labels = _labels_to_match(alerts, workspaces, problems, with_defaults=with_defaults)
    for part in repeated["silences"]:
        _silence(part, labels, problems)


def alerting_settings(
    part: ReadTable, alerts: list[ReadTable], silences: list[ReadTable]
) -> AlertingSettings:
    """Return the settings; call only where no problem was found."""
    own = tuple(_rule(alert) for alert in alerts)
    settings: AlertingSettings = part.build(
        rules=with_runbooks_at(
            combined(own, with_defaults=part.get("with_defaults")), part.get("runbooks")
        ),
        disabled=tuple(rule for rule in own if not rule.is_enabled),
        silences=tuple(silence.build() for silence in silences),
    )
    return settings


def _rule(part: ReadTable) -> RuleSettings:
    fields = {"name": part.get("rule").value, **part.fields}
    if "expect" in fields:
        fields["expect"] = quartz_expression(fields["expect"])
    base = default_rule(part.get("rule"))
    annotations = {**base.annotations, **fields.get("annotations", {})}
    match = part.parts["match"].build()
    return msgspec.structs.replace(base, **{**fields, "annotations": annotations, "match": match})


def _names(alerts: list[ReadTable], problems: Problems) -> None:
    first: dict[str, str] = {}
    for part in alerts:
        name, kind = part.get("name"), part.get("rule")
        if name is None and kind is not None and not problems.holds(f"{part.path}.name"):
            name = kind.value
        if name is None:
            continue
        if first.setdefault(name, part.path) != part.path:
            hint = f"is the name of {first[name]} already; choose another"
            problems.add(f"{part.path}.name", name, hint)
        elif kind is not None and name in RuleKind.__members__.values() and name != kind:
            hint = f"is the name of another rule, and this one is {kind}; choose another"
            problems.add(f"{part.path}.name", name, hint)


def _labels(part: ReadTable, problems: Problems) -> None:
    for name, value in (part.get("labels") or {}).items():
        key = f"{part.path}.labels.{name}"
        if (hint := _label_name_problem(name)) is not None:
            problems.add(key, value, hint)
        elif name in SHOWN_LABELS:
            own = f"; the key {name} sets it" if name in ("severity", "rule") else ""
            hint = f"every alert has this label already{own}; choose another, such as own_{name}"
            problems.add(key, value, hint)
        elif not value.strip() or not value.isprintable() or len(value) > _LONGEST_LABEL:
            problems.add(key, value, f"must be one line of 1 to {_LONGEST_LABEL} characters")


def _label_name_problem(name: str) -> str | None:
    if _LABEL.fullmatch(name) is not None and not name.startswith("__"):
        return None
    near = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    near = f"_{near}" if near[:1].isdigit() else near
    hint = f"; did you mean {near}?" if near else ""
    return f"a label is letters, digits and _, with no digit and not __ first{hint}"


def _numbers(part: ReadTable, definition: AnyRuleDefinition, problems: Problems) -> None:
    given, kind = part.fields, definition.rule
    for name, quantity in (
        ("threshold", definition.threshold),
        ("window_seconds", definition.window),
        ("minimum", definition.minimum),
    ):
        value, key = given.get(name), f"{part.path}.{name}"
        if value is None:
            continue
        if quantity is None:
            problems.add(key, value, f"the rule {kind} has no such number; remove it")
        elif (problem := quantity.problem(value)) is not None:
            problems.add(key, value, f"{problem} for {kind}: {quantity.about}")


def _annotations(part: ReadTable, definition: AnyRuleDefinition, problems: Problems) -> None:
    for name, text in (part.get("annotations") or {}).items():
        key = f"{part.path}.annotations.{name}"
        if (hint := _label_name_problem(name)) is not None:
            # Alertmanager has the same limits for both.
            problems.add(key, text, hint.replace("a label", "the name of an annotation", 1))
            continue
        try:
            check_template(text, definition.annotation_fields)
        except ConfigurationError as exc:
            problems.add(key, text, exc.problems[0])


def _match(
    part: ReadTable,
    definition: AnyRuleDefinition,
    workspaces: list[ReadTable],
    problems: Problems,
) -> None:
    match, kind, known = part.parts.get("match"), definition.rule, definition.match_fields
    if match is None:
        return
    for name, globs in match.fields.items():
        if globs and name not in known:
            fields = f"only {', '.join(known)}" if known else "nothing to match by"
            problems.add(f"{match.path}.{name}", list(globs), f"{kind} has {fields}; remove this")
    names = [workspace.get("name") for workspace in workspaces if workspace.get("name")]
    for name, words, what in (
        ("workspace", names, "workspace"),
        ("kind", definition.run_kinds, f"kind of run of {kind}"),
    ):
        globs = match.get(name)
        if name in known and words and (hint := fits_some(globs, words, what)) is not None:
            problems.add(f"{match.path}.{name}", list(globs), hint)


def _expected(part: ReadTable, definition: AnyRuleDefinition, problems: Problems) -> None:
    given, kind = part.fields, definition.rule
    kinds = ", ".join(rule for rule, other in RULE_DEFINITIONS.items() if other.may_expect)
    for name in ("expect", "expect_timezone"):
        if name in given and not definition.may_expect:
            hint = f"is for {kinds}, and this rule is {kind}; remove it"
            problems.add(f"{part.path}.{name}", given[name], hint)
    if not definition.may_expect or "expect" not in given:
        return
    if "match" in part.parts and not part.parts["match"].get("pipeline"):
        hint = "does not say whose runs; add pipeline to [alerts.match]"
        problems.add(f"{part.path}.expect", given["expect"], hint)
    if part.get("name") in (None, kind.value):
        hint = "would replace the evaluation of visible schedules; give the rule another name"
        problems.add(f"{part.path}.expect", given["expect"], hint)


def _requirement(
    part: ReadTable,
    definition: AnyRuleDefinition,
    workspaces: list[ReadTable],
    problems: Problems,
) -> None:
    requires = definition.requires
    if requires is None or part.get("is_enabled") is False or "match" not in part.parts:
        return
    globs = parse_globs(part.parts["match"].get("workspace"))
    matched = [workspace for workspace in workspaces if globs.match([workspace.get("name") or ""])]
    tables = [workspace.parts.get(requires.table) for workspace in matched]
    has_other = any(requires.other_table in workspace.parts for workspace in matched)
    if (
        matched
        and not has_other
        and not any(
            table is not None and (not requires.key or table.get(requires.key)) for table in tables
        )
    ):
        names = ", ".join(workspace.get("name") or workspace.path for workspace in matched)
        hint = f"sees nothing of {names}; {requires.hint}"
        problems.add(f"{part.path}.rule", definition.rule.value, hint)


def _labels_to_match(
    alerts: list[ReadTable], workspaces: list[ReadTable], problems: Problems, *, with_defaults: bool
) -> Labels:
    rules = [rule.name for rule in DEFAULT_RULES] if with_defaults else []
    rules += [str(name) for part in alerts if (name := part.get("name") or part.get("rule"))]
    own = {label for part in alerts for label in part.get("labels") or {}}
    # Where a name itself has a problem, that is reported and nothing that follows from it.
    names = [workspace.get("name") for workspace in workspaces]
    labels = labels_to_match(
        own,
        rules=() if _has_problem(alerts, "name", "rule", problems=problems) else rules,
        workspaces=() if _has_problem(workspaces, "name", problems=problems) else names,
    )
    return dict(sorted(labels.items()))


def _has_problem(parts: list[ReadTable], *names: str, problems: Problems) -> bool:
    return any(problems.holds(f"{part.path}.{name}") for part in parts for name in names)


def _silence(part: ReadTable, labels: Labels, problems: Problems) -> None:
    given: dict[str, Any] = part.fields
    for sentence in silence_problems(
        matchers=given.get("matchers", ()),
        author=part.get("author"),
        comment=given.get("comment", ""),
        starts_at=given.get("starts_at"),
        ends_at=given.get("ends_at"),
        labels=labels,
    ):
        name, _, hint = sentence.partition(": ")
        if name in given:  # what is absent, or of another type, was reported already
            value = list(given[name]) if name == "matchers" else given[name]
            problems.add(f"{part.path}.{name}", value, hint)
