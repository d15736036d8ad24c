"""Writes what is made of the settings: reference, JSON Schema, and the README's table of rules."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

from monitor.alerting.settings import RULE_DEFINITIONS, AnyRuleDefinition, Quantity
from monitor.config.keys import Key, Kind, in_toml, number
from monitor.config.locations import ABOUT_FORMS, SecretForm
from monitor.config.section import Section, keys_of_secret
from monitor.config.sections import SECTIONS, WORKSPACES
from monitor.model.settings import StartSetting

_HEAD = """\
#:schema ./monitor.schema.json

# Every setting of dataprep-monitor with its default, unit and reason.
#
# What has a default is written with it; what has none is written as an example after a #.
# config/minimal.toml is a minimal configuration.
# `dataprep-monitor check -c FILE` lists every problem at once.
#
# A reload puts every change in force but those of keys that are read at start.
#
# A secret never stands in this file. For each one give exactly one of
#   <key>_file        a file that holds nothing else; a line end after it is ignored
#   <key>_env         the name of an environment variable that holds it
#   <key>_credential  the name of a systemd credential of the service
#   <key>_command     a command that prints nothing else, as a text or as a list of program and
#                     arguments; no shell reads it; it has 10 s
#
# A key outside lists of tables can be set by a variable: DATAPREP_MONITOR__SECTION__KEY, as in
# DATAPREP_MONITOR__STORAGE__RETENTION__RUNS_SECONDS=604800; of a workspace the URL and the token:
# DATAPREP_MONITOR__WORKSPACES__MARKETING__URL, DATAPREP_MONITOR__WORKSPACES__MARKETING__TOKEN.
#
# The path of a file is absolute, or begins at the folder of this file.
"""

_READ_AT_START = "Read at start."
_EXAMPLE_LOCATIONS = {
    SecretForm.FILE: "/run/secrets/{}",
    SecretForm.ENV: "{}",
    SecretForm.CREDENTIAL: "{}",
    SecretForm.COMMAND: "vault kv get -field={} secret/dataprep",
}

_TEXT = Kind.TEXT.schema
_FORM_SCHEMAS = {SecretForm.COMMAND: Kind.ONE_OR_MORE.schema}

_RULES_HEAD = "| rule | it fires when | `threshold` | other numbers | for | severity | fields |"
_RULES_TABLE = re.compile(rf"^{re.escape(_RULES_HEAD)}\n(?:\|.*\n)*", re.MULTILINE)


def reference_toml() -> str:
    """Return the text of ``config/monitor.toml``: a file that can be used as it is."""
    return _HEAD + "".join(_section_toml(section) for section in SECTIONS)


def _section_toml(section: Section) -> str:
    head = f"[[{section.path}]]" if section.is_repeated else f"[{section.path}]"
    lines = ["", *_comment(section.about), head]
    for key in section.keys:
        lines.extend(_key_toml(key))
    if section.is_example:
        lines = [f"#{line}" if line and not line.startswith("#") else line for line in lines]
    return "\n".join([*lines, ""])


def _key_toml(key: Key) -> list[str]:
    lines = ["", *_comment(" ".join(part for part in (key.about, _limits(key)) if part))]
    if key.kind is Kind.SECRET:
        for key_name, form in keys_of_secret(key).items():
            name = str(key.setting.example)
            name = name.upper().replace("-", "_") if form is SecretForm.ENV else name
            mark = "" if key.is_required and form is SecretForm.FILE else "#"
            lines.append(f'{mark}{key_name} = "{_EXAMPLE_LOCATIONS[form].format(name)}"')
        return lines
    if key.default is None:
        mark = "" if key.is_required else "#"
        return [*lines, f"{mark}{key.name} = {in_toml(key.setting.example)}"]
    return [*lines, f"{key.name} = {in_toml(key.default)}"]


def _limits(key: Key) -> str:
    parts = [f"Unit: {key.unit}."] if key.unit else []
    if key.choices:
        parts.append(f"One of {', '.join(key.choices)}.")
    if key.minimum is not None and key.maximum is not None:
        parts.append(f"From {_grouped(key.minimum)} to {_grouped(key.maximum)}.")
    if key.is_required:
        parts.append("Required.")
    if isinstance(key.setting, StartSetting):
        parts.append(_READ_AT_START)
    return " ".join(parts)


def _grouped(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else number(value)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 96, break_on_hyphens=False)]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors that complete and check while typing."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of dataprep-monitor",
        **_table_schema({WORKSPACES.path}, {}, SECTIONS.below("")),
    }


def schema_text() -> str:
    """Return the text of ``config/monitor.schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _table_schema(
    required: set[str], properties: dict[str, Any], sections: dict[str, Section]
) -> dict[str, Any]:
    tables = {name: _section_schema(section) for name, section in sections.items()}
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, **tables},
    }
    return {**schema, "required": sorted(required)} if required else schema


def _section_schema(section: Section) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key in section.keys:
        if key.kind is Kind.SECRET:
            for name, form in keys_of_secret(key).items():
                about = f"{key.about} Here: {ABOUT_FORMS[form]}."
                properties[name] = {"description": about, **_FORM_SCHEMAS.get(form, _TEXT)}
        else:
            properties[key.name] = _key_schema(key)
    table = _table_schema(_required_keys(section), properties, SECTIONS.below(section.path))
    table = {"description": section.about, **table}
    if not section.is_repeated:
        return table
    least = {} if section.is_optional else {"minItems": 1}
    return {"type": "array", **least, "items": table}


def _required_keys(section: Section) -> set[str]:
    """Return the keys that an editor must require: those that only the file can give."""
    if section is WORKSPACES:  # the token and the URL may come from the environment
        return {"name"}
    return {
        key.name
        for key in section.keys
        if key.is_required and section.is_repeated and key.kind is not Kind.SECRET
    }


def _key_schema(key: Key) -> dict[str, Any]:
    unit = f" Unit: {key.unit}." if key.unit else ""
    start = f" {_READ_AT_START}" if isinstance(key.setting, StartSetting) else ""
    more = {
        "enum": list(key.choices) or None,
        "minimum": key.minimum,
        "maximum": key.maximum,
        "pattern": key.pattern,
        "default": key.default,
    }
    return {
        "description": f"{key.about}{unit}{start}",
        **key.kind.schema,
        **{word: value for word, value in more.items() if value is not None},
    }


def rules_table() -> list[str]:
    """Return the lines of the table."""
    return [
        _RULES_HEAD,
        "|---|---|---|---|---|---|---|",
        *map(_rule_row, RULE_DEFINITIONS.values()),
    ]


def with_rules_table(text: str) -> str:
    """Return a document with its table of rules replaced; without one, as it is."""
    table = "".join(f"{row}\n" for row in rules_table())
    return _RULES_TABLE.sub(lambda _: table, text)


def _rule_row(definition: AnyRuleDefinition) -> str:
    window, minimum = definition.window, definition.minimum
    others = [
        f"`{name}` {_quantity(quantity)}"
        for name, quantity in (("window_seconds", window), ("minimum", minimum))
        if quantity is not None
    ]
    cells = (
        f"`{definition.rule}`" + ("" if definition.is_default else ", off by default"),
        definition.about,
        _quantity(definition.threshold),
        "; ".join(others) or "-",
        f"{definition.for_seconds:g} s" if definition.for_seconds else "-",
        definition.severity,
        ", ".join(f"`{field}`" for field in definition.template_fields),
    )
    return f"| {' | '.join(cells)} |"


def _quantity(quantity: Quantity | None) -> str:
    if quantity is None:
        return "-"
    default = "" if quantity.default is None else f" (**{quantity.default:,.10g}**)"
    return f"{quantity.about}{default}"
