"""All sections of the file, in the order of the reference."""

from __future__ import annotations

from monitor.config.alerting_keys import ALERTING, ALERTS, MATCH, SILENCES
from monitor.config.daemon_keys import LISTENER, LOG, RETENTION, SERVER, STORAGE
from monitor.config.keys import Kind, Section, section_of
from monitor.config.locations import secret_keys
from monitor.config.workspace_keys import CALLBACKS, INVENTORY, POLL, WORKSPACES
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.records import RECORDS

OUTPUTS = tuple(
    section_of(record.section, record.settings, is_optional=True, is_example=not record.is_usual)
    for record in RECORDS
)
METRICS = section_of("metrics", MetricsSettings)

SECTIONS: tuple[Section, ...] = (
    WORKSPACES,
    POLL,
    INVENTORY,
    CALLBACKS,
    *OUTPUTS,
    SERVER,
    LISTENER,
    STORAGE,
    RETENTION,
    METRICS,
    ALERTING,
    ALERTS,
    MATCH,
    SILENCES,
    LOG,
)

# The sections of which there may be several.
REPEATED = frozenset(section.path for section in SECTIONS if section.is_repeated)


def is_repeated(path: str) -> bool:
    """True for a section of which there may be several, and for what lies below one."""
    return path.partition(".")[0] in REPEATED


def section(path: str) -> Section | None:
    """Return the section of that path, None where there is none."""
    return next((section for section in SECTIONS if section.path == path), None)


def below(path: str) -> dict[str, Section]:
    """Return the sections directly below ``path``, by their last name; "" is the whole file."""
    prefix = f"{path}." if path else ""
    return {
        section.path.removeprefix(prefix): section
        for section in SECTIONS
        if section.path.startswith(prefix) and "." not in section.path.removeprefix(prefix)
    }


def written_keys(of: Section) -> list[str]:
    """Return the keys that may be written in a section; a secret has three."""
    names: list[str] = []
    for key in of.keys:
        names.extend(secret_keys(key.name) if key.kind is Kind.SECRET else [key.name])
    return names
