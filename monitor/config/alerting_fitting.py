"""Finds rules and silences that are right in each value and wrong as a whole; builds the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from monitor.alerting.settings.defaults import (
    DEFAULT_RULES,
    RULES,
    Quantity,
    combined,
    default_rule,
)
from monitor.alerting.settings.engine import AlertingSettings
from monitor.alerting.settings.labels import SHOWN_LABELS
from monitor.alerting.settings.matching import read_globs
from monitor.alerting.settings.rules import Match, RuleKind, RuleSettings
from monitor.alerting.settings.silences import (
    Labels,
    SilenceSettings,
    labels_to_match,
    silence_faults,
)
from monitor.alerting.settings.templates import template
from monitor.config.alerting_checks import fits_some
from monitor.config.faults import Faults
from monitor.config.reading import Part
from monitor.model.errors import ConfigurationError

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_LONGEST_LABEL = 200  # characters of a value

# Rules that see nothing where the reading behind them is off: the table and its key, both below
# a workspace, and what to do.
_NEEDS = {
    RuleKind.TOKEN_EXPIRING: ("beyond", "tokens", "set tokens = true in [workspaces.beyond]"),
    RuleKind.QUALITY_DROPPED: ("beyond", "profiles", "set profiles = true in [workspaces.beyond]"),
    RuleKind.CALLBACKS_MISSED: ("callbacks", "", "add [workspaces.callbacks]"),
}


def find_alerting_misfits(
    repeated: Mapping[str, list[Part]], alerting: Part | None, faults: Faults
) -> None:
    """Add a fault for everything about rules and silences that does not fit together."""
    alerts, workspaces = repeated["alerts"], repeated["workspaces"]
    _names(alerts, faults)
    for part in alerts:
        _labels(part, faults)
        kind = part.get("rule")
        if kind is not None:
            _numbers(part, kind, faults)
            _annotations(part, kind, faults)
            _match(part, kind, workspaces, faults)
            _expected(part, kind, faults)
            _needs(part, kind, workspaces, faults)
    with_defaults = alerting is None or alerting.get("with_defaults")
    labels = _labels_to_match(alerts, workspaces, faults, with_defaults=with_defaults)
    for part in repeated["silences"]:
        _silence(part, labels, faults)


def alerting_settings(part: Part, alerts: list[Part], silences: list[Part]) -> AlertingSettings:
    """Return the settings; call only where no fault was found."""
    own = tuple(_rule(one) for one in alerts)
    settings: AlertingSettings = part.build(
        rules=combined(own, with_defaults=part.get("with_defaults")),
        silences=tuple(one.build() for one in silences),
    )
    return settings


def _rule(part: Part) -> RuleSettings:
    fields = {"name": part.get("rule").value, **part.of(RuleSettings)}
    base = default_rule(part.get("rule"))
    annotations = {**base.annotations, **fields.get("annotations", {})}
    match = part.parts["match"].build()
    return msgspec.structs.replace(base, **{**fields, "annotations": annotations, "match": match})


def _names(alerts: list[Part], faults: Faults) -> None:
    first: dict[str, str] = {}
    for part in alerts:
        name, kind = part.get("name"), part.get("rule")
        if name is None and kind is not None and not faults.holds(f"{part.path}.name"):
            name = kind.value
        if name is None:
            continue
        if first.setdefault(name, part.path) != part.path:
            way_out = f"is the name of {first[name]} already; choose another"
            faults.add(f"{part.path}.name", name, way_out)
        elif kind is not None and name in RuleKind.__members__.values() and name != kind:
            way_out = f"is the name of another rule, and this one is {kind}; choose another"
            faults.add(f"{part.path}.name", name, way_out)


def _labels(part: Part, faults: Faults) -> None:
    for name, value in (part.get("labels") or {}).items():
        key = f"{part.path}.labels.{name}"
        if (way_out := _label_name_fault(name)) is not None:
            faults.add(key, value, way_out)
        elif name in SHOWN_LABELS:
            own = f"; the key {name} sets it" if name in ("severity", "rule") else ""
            way_out = f"every alert has this label already{own}; choose another, such as own_{name}"
            faults.add(key, value, way_out)
        elif not value.strip() or not value.isprintable() or len(value) > _LONGEST_LABEL:
            faults.add(key, value, f"must be one line of 1 to {_LONGEST_LABEL} characters")


def _label_name_fault(name: str) -> str | None:
    if _LABEL.fullmatch(name) is not None and not name.startswith("__"):
        return None
    near = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    near = f"_{near}" if near[:1].isdigit() else near
    hint = f"; did you mean {near}?" if near else ""
    return f"a label is letters, digits and _, with no digit and not __ first{hint}"


def _numbers(part: Part, kind: RuleKind, faults: Faults) -> None:
    defaults, given = RULES[kind], part.of(RuleSettings)
    for name, quantity in (
        ("threshold", defaults.threshold),
        ("window_seconds", defaults.window),
        ("minimum", defaults.minimum),
    ):
        value = given.get(name)
        way_out = None if value is None else _number_fault(value, quantity, kind)
        if way_out is not None:
            faults.add(f"{part.path}.{name}", value, way_out)


def _number_fault(value: float, quantity: Quantity | None, kind: RuleKind) -> str | None:
    if quantity is None:
        return f"the rule {kind} has no such number; remove it"
    if quantity.holds(value):
        return None
    if quantity.counts(value) and quantity.least <= value <= quantity.most:
        return f"must be whole from 1 on, such as {round(value)}, for {kind}: {quantity.about}"
    return f"must be {quantity.least:,.10g} to {quantity.most:,.10g} for {kind}: {quantity.about}"


def _annotations(part: Part, kind: RuleKind, faults: Faults) -> None:
    for name, text in (part.get("annotations") or {}).items():
        key = f"{part.path}.annotations.{name}"
        if (way_out := _label_name_fault(name)) is not None:
            # Alertmanager asks the same of both.
            faults.add(key, text, way_out.replace("a label", "the name of an annotation", 1))
            continue
        try:
            template(text, RULES[kind].template_fields)
        except ConfigurationError as exc:
            faults.add(key, text, exc.faults[0])


def _match(part: Part, kind: RuleKind, workspaces: list[Part], faults: Faults) -> None:
    match = part.parts.get("match")
    if match is None:
        return
    for name, globs in match.of(Match).items():
        known = RULES[kind].match
        if globs and name not in known:
            said = f"only {', '.join(known)}" if known else "nothing to match by"
            faults.add(f"{match.path}.{name}", list(globs), f"{kind} has {said}; remove this")
    names = [one.get("name") for one in workspaces if one.get("name")]
    for name, words, what in (
        ("workspace", names, "workspace"),
        ("kind", RULES[kind].kinds, f"kind of run of {kind}"),
    ):
        globs = match.get(name)
        if name in RULES[kind].match and words:
            way_out = fits_some(globs, words, what)
            if way_out is not None:
                faults.add(f"{match.path}.{name}", list(globs), way_out)


def _expected(part: Part, kind: RuleKind, faults: Faults) -> None:
    given = part.of(RuleSettings)
    for name in ("expect", "expect_timezone"):
        if name in given and kind is not RuleKind.SCHEDULE_MISSED:
            way_out = f"is for schedule_missed, and this rule is {kind}; remove it"
            faults.add(f"{part.path}.{name}", given[name], way_out)
    if kind is not RuleKind.SCHEDULE_MISSED or "expect" not in given:
        return
    if "match" in part.parts and not part.parts["match"].get("pipeline"):
        way_out = "does not say whose runs; add pipeline to [alerts.match]"
        faults.add(f"{part.path}.expect", given["expect"], way_out)
    if part.get("name") in (None, kind.value):
        way_out = "would replace what is judged by visible schedules; give the rule another name"
        faults.add(f"{part.path}.expect", given["expect"], way_out)


def _needs(part: Part, kind: RuleKind, workspaces: list[Part], faults: Faults) -> None:
    if kind not in _NEEDS or part.get("is_enabled") is False or "match" not in part.parts:
        return
    table, key, way_out = _NEEDS[kind]
    globs = read_globs(part.parts["match"].get("workspace"))
    watched = [one for one in workspaces if globs.take([one.get("name") or ""])]
    if watched and not any(_has(one, table, key) for one in watched):
        names = ", ".join(one.get("name") or one.path for one in watched)
        faults.add(f"{part.path}.rule", kind.value, f"sees nothing of {names}; {way_out}")


def _has(workspace: Part, table: str, key: str) -> bool:
    part = workspace.parts.get(table)
    return part is not None and (not key or bool(part.get(key)))


def _labels_to_match(
    alerts: list[Part], workspaces: list[Part], faults: Faults, *, with_defaults: bool
) -> Labels:
    rules = [one.name for one in DEFAULT_RULES] if with_defaults else []
    rules += [str(name) for part in alerts if (name := part.get("name") or part.get("rule"))]
    own = {label for part in alerts for label in part.get("labels") or {}}
    # Where the name of one is at fault itself, that is told and nothing that follows from it.
    watched = [one.get("name") for one in workspaces]
    labels = labels_to_match(
        own,
        rules=() if _is_at_fault(alerts, faults) else rules,
        workspaces=() if _is_at_fault(workspaces, faults) else watched,
    )
    return dict(sorted(labels.items()))


def _is_at_fault(parts: list[Part], faults: Faults) -> bool:
    return any(faults.holds(f"{one.path}.name") or not one.is_whole for one in parts)


def _silence(part: Part, labels: Labels, faults: Faults) -> None:
    given: dict[str, Any] = part.of(SilenceSettings)
    for sentence in silence_faults(
        matchers=given.get("matchers", ()),
        author=part.get("author"),
        comment=given.get("comment", ""),
        starts_at=given.get("starts_at"),
        ends_at=given.get("ends_at"),
        labels=labels,
    ):
        name, _, way_out = sentence.partition(": ")
        if name in given:  # what is absent, or of another type, was told already
            value = list(given[name]) if name == "matchers" else given[name]
            faults.add(f"{part.path}.{name}", value, way_out)
