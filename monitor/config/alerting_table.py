"""The table of rules in ``config/README.md``, made from the definitions of their kinds."""

from __future__ import annotations

import re

from monitor.alerting.settings import RULE_DEFINITIONS, AnyRuleDefinition, Quantity

_HEAD = "| rule | it fires when | `threshold` | other numbers | for | severity | fields |"
_TABLE = re.compile(rf"^{re.escape(_HEAD)}\n(?:\|.*\n)*", re.MULTILINE)


def rules_table() -> list[str]:
    """Return the lines of the table."""
    return [_HEAD, "|---|---|---|---|---|---|---|", *map(_row, RULE_DEFINITIONS.values())]


def with_rules_table(text: str) -> str:
    """Return a document with its table of rules replaced; without one, as it is."""
    table = "".join(f"{row}\n" for row in rules_table())
    return _TABLE.sub(lambda _: table, text)


def _row(definition: AnyRuleDefinition) -> str:
    window, minimum = definition.window, definition.minimum
    others = [
        f"`{name}` {_number(quantity)}"
        for name, quantity in (("window_seconds", window), ("minimum", minimum))
        if quantity is not None
    ]
    cells = (
        f"`{definition.rule}`" + ("" if definition.is_default else ", off by default"),
        definition.about,
        _number(definition.threshold),
        "; ".join(others) or "-",
        f"{definition.for_seconds:g} s" if definition.for_seconds else "-",
        definition.severity,
        ", ".join(f"`{field}`" for field in definition.template_fields),
    )
    return f"| {' | '.join(cells)} |"


def _number(quantity: Quantity | None) -> str:
    if quantity is None:
        return "-"
    default = "" if quantity.default is None else f" (**{quantity.default:,.10g}**)"
    return f"{quantity.about}{default}"
