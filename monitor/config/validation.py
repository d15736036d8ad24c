"""Validates a parsed configuration: single values first, then values that must fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from monitor.bus.settings import Retention
from monitor.callbacks.settings import SignatureMode
from monitor.config.alerting_consistency import alerting_settings, find_alerting_contradictions
from monitor.config.channel_consistency import find_channel_contradictions
from monitor.config.configuration import Configuration, WorkspaceConfiguration
from monitor.config.environment import default_store_url, overlaid
from monitor.config.locations import Locations, NoLocations
from monitor.config.problems import Problem, Problems
from monitor.config.reading import ConfigurationReader, ReadTable
from monitor.config.report_consistency import find_report_contradictions
from monitor.config.sections import SECTIONS
from monitor.listening.settings import split_address
from monitor.model.errors import ConfigurationError
from monitor.model.notifying import why_not_notified
from monitor.model.secrets import Secret
from monitor.model.suggestions import did_you_mean
from monitor.outputs.records import RECORDS, output_types
from monitor.tracking.settings import TrackingSettings
from monitor.web.status_pages.settings import ShownPipeline

Parts = Mapping[str, ReadTable]
NO_LOCATIONS = NoLocations()


def find_contradictions(
    repeated: Mapping[str, list[ReadTable]], parts: Parts, problems: Problems
) -> None:
    """Add a problem for each contradiction between settings."""
    workspaces = repeated["workspaces"]
    pages = repeated["status_pages"]
    for tables in (workspaces, repeated["notify"], repeated["access"], pages):
        _names(tables, problems)
    for page in pages:
        _shown_workspaces(page, workspaces, problems)
    for workspace in workspaces:
        if "callbacks" in workspace.parts:
            _callbacks(workspace.parts["callbacks"], parts, problems)
    find_channel_contradictions(repeated, problems)
    _listener(workspaces, parts, problems)
    _storage(parts.get("storage"), problems)
    _shared_secrets([*workspaces, *repeated["notify"], *parts.values()], problems)
    several = [*workspaces, *repeated["notify"], *repeated["access"]]
    for part in _with_those_below([*several, *parts.values()]):
        if hasattr(part.section.settings, "problems"):
            more = _of_server(part, repeated) if part is parts.get("server") else {}
            _own_problems(part, problems, more)


def _with_those_below(parts: Iterable[ReadTable]) -> Iterator[ReadTable]:
    for part in parts:
        yield part
        yield from _with_those_below(part.parts.values())


def _names(tables: list[ReadTable], problems: Problems) -> None:
    first: dict[str, str] = {}
    for table in tables:
        name = table.get("name")
        if name is not None and first.setdefault(name, table.path) != table.path:
            hint = f"is the name of {first[name]} already; choose another"
            problems.add(f"{table.path}.name", name, hint)


def _shown_workspaces(page: ReadTable, workspaces: list[ReadTable], problems: Problems) -> None:
    known = [name for workspace in workspaces if (name := workspace.get("name")) is not None]
    for shown, text in (page.get("shows") or {}).items():
        name = ShownPipeline.of(text).workspace
        if known and name not in known:
            hint = f"no workspace is named {name!r}{did_you_mean(name, known)}"
            problems.add(f"{page.path}.shows", f"{shown} = {text}", hint)


def _callbacks(part: ReadTable, parts: Parts, problems: Problems) -> None:
    if part.get("public_url") is not None and "callbacks" not in parts:
        hint = "nothing listens for callbacks; add the section [callbacks]"
        problems.add(f"{part.path}.public_url", part.get("public_url"), hint)
    if part.get("signature") is SignatureMode.OBSERVE and part.get("signing_secret") is not None:
        hint = (
            "signing_secret protects nothing: a callback with a wrong signature is counted and "
            "accepted; take require once real callbacks match, or remove signing_secret"
        )
        problems.warn(f"{part.path}.signature", part.get("signature"), hint)


def _listener(workspaces: list[ReadTable], parts: Parts, problems: Problems) -> None:
    listener, server = parts.get("callbacks"), parts.get("server")
    if listener is None:
        return
    if workspaces and not any("callbacks" in workspace.parts for workspace in workspaces):
        hint = "no workspace accepts callbacks; add [workspaces.callbacks] or remove this"
        problems.add("callbacks", {}, hint)
    listen = listener.get("listen")
    port = split_address(listen)[1]
    if server is not None and port and port == split_address(server.get("listen"))[1]:
        hint = "is the port of [server] already; choose another"
        problems.add(f"{listener.path}.listen", listen, hint)


def _shared_secrets(parts: Iterable[ReadTable], problems: Problems) -> None:
    """Warn of a secret that stands in two places: one that leaks opens both."""
    first: dict[str, str] = {}
    for part in _with_those_below(parts):
        for name, value in part.fields.items():
            if not isinstance(value, Secret):
                continue
            path = f"{part.path}.{name}"
            other = first.setdefault(value.reveal(), path)
            if other != path:
                hint = f"is the same as {other}; one that leaks opens both, so make another"
                problems.warn(path, value, hint)


def _storage(part: ReadTable | None, problems: Problems) -> None:
    if part is None or part.get("password") is None:
        return
    # In place of a URL that cannot be used there is a default, which is no problem.
    if part.build().postgres is None and not problems.holds(f"{part.path}.url"):
        hint = "storage.password is not used: a file has none; name the database, or remove it"
        problems.warn(f"{part.path}.url", part.get("url"), hint)


def _of_server(part: ReadTable, repeated: Mapping[str, list[ReadTable]]) -> dict[str, Any]:
    """Return what stands below and beside the section [server]."""
    return {
        "access": tuple(entry.build() for entry in repeated["access"]),
        "status_pages": tuple(page.build() for page in repeated["status_pages"]),
        "oidc": part.parts["oidc"].build() if "oidc" in part.parts else None,
    }


def _own_problems(part: ReadTable, problems: Problems, more: Mapping[str, Any]) -> None:
    """Add the problems that the settings report themselves, as sentences ``key: hint``."""
    for sentence in part.build(**more).problems():
        name, _, hint = sentence.partition(": ")
        if problems.holds(f"{part.path}.{name}"):
            continue  # what was given is left out of the settings
        if isinstance(part.get(name), Secret):
            problems.add_hidden(f"{part.path}.{name}", hint)
        elif part.get(name) is None:
            problems.add_absent(f"{part.path}.{name}", hint)
        else:
            problems.add(f"{part.path}.{name}", part.get(name), hint)


class ValidationResult(Struct, frozen=True, kw_only=True):
    """Either a configuration, or every problem of what was given; and what to be warned of."""

    configuration: Configuration | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


def validate(
    mapping: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    locations: Locations = NO_LOCATIONS,
) -> ValidationResult:
    """Return the settings that a parsed file and the environment make, or all their problems."""
    problems = Problems()
    reader = ConfigurationReader(locations=locations, problems=problems, sections=SECTIONS)
    repeated, parts = reader.root(overlaid(mapping, environment, problems, sections=SECTIONS))
    find_contradictions(repeated, parts, problems)
    find_alerting_contradictions(repeated, parts.get("alerting"), problems)
    find_report_contradictions(repeated, problems)
    warnings = tuple(problems.warnings)
    if problems.found:
        found = tuple(problems.found)
        return ValidationResult(configuration=None, problems=found, warnings=warnings)
    configuration = _built(repeated, parts, store_url=default_store_url(environment))
    warnings += _unnotified(configuration)
    return ValidationResult(configuration=configuration, problems=(), warnings=warnings)


def parse_configuration(
    mapping: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    locations: Locations = NO_LOCATIONS,
) -> Configuration:
    """Return the settings that a parsed file and the environment make.

    Raises:
        ConfigurationError: with one sentence ``key: value: hint`` for each problem.
    """
    result = validate(mapping, environment, locations=locations)
    if result.configuration is None:
        raise ConfigurationError([str(problem) for problem in result.problems])
    return result.configuration


def _built(
    repeated: Mapping[str, list[ReadTable]],
    parts: Mapping[str, ReadTable],
    *,
    store_url: str | None,
) -> Configuration:
    link_wait_seconds = parts["alerting"].get("parents_wait_seconds")
    workspaces = tuple(
        _workspace(part, link_wait_seconds=link_wait_seconds) for part in repeated["workspaces"]
    )
    storage = parts["storage"]
    # The settings' own default is for a service, whose user has no home.
    url = {} if store_url is None or "url" in storage.fields else {"url": store_url}
    retention = storage.parts["retention"]
    waits = [workspace.callbacks.give_up_seconds for workspace in workspaces if workspace.callbacks]
    return Configuration(
        workspaces=workspaces,
        alerting=alerting_settings(parts["alerting"], repeated["alerts"], repeated["silences"]),
        outputs=_outputs(repeated, parts),
        reports=tuple(part.build() for part in repeated["reports"]),
        server=parts["server"].build(**_of_server(parts["server"], repeated)),
        callbacks=parts["callbacks"].build() if "callbacks" in parts else None,
        # The store must not drop a callback that its workspace still waits to confirm.
        storage=storage.build(
            **url,
            retention=retention.build(
                callbacks_seconds=max([Retention().callbacks_seconds, *waits])
            ),
        ),
        # The same horizon: a run that the store has deleted must not make its events again.
        tracking=TrackingSettings(forget_seconds=retention.get("runs_seconds")),
        metrics=parts["metrics"].build(),
        process=parts["process"].build(),
        log=parts["log"].build(),
    )


def _outputs(
    repeated: Mapping[str, list[ReadTable]], parts: Mapping[str, ReadTable]
) -> dict[str, Struct]:
    """Return the settings of the outputs that are switched on, by section."""
    outputs: dict[str, Struct] = {}
    for record in RECORDS:
        if record.section in parts:
            outputs[record.section] = parts[record.section].build()
        elif record.gathered is not None and (tables := repeated[record.section]):
            outputs[record.section] = record.gathered(
                tuple(table.build(**_reports_of(table, repeated["reports"])) for table in tables)
            )
    return outputs


def _reports_of(table: ReadTable, reports: list[ReadTable]) -> dict[str, Any]:
    """Return the names of the reports that a channel sends, for its settings."""
    channel = table.get("name")
    return {
        "reports": tuple(
            report.get("name") for report in reports if channel in report.get("channels")
        )
    }


def _unnotified(configuration: Configuration) -> tuple[Problem, ...]:
    """Return the warning that no alert reaches anybody."""
    alerting, types = configuration.alerting, output_types(configuration.outputs)
    why = why_not_notified(types)
    if why is None or not alerting.rules or not alerting.warn_without_output:
        return ()
    hint = (
        f"no notifications are sent: {why}; where Prometheus' rules notify people, set "
        "alerting.warn_without_output = false"
    )
    return (Problem(key="outputs", value=", ".join(types) or "none", hint=hint),)


def _workspace(part: ReadTable, *, link_wait_seconds: float) -> WorkspaceConfiguration:
    poll = part.parts["poll"]
    callbacks = part.parts.get("callbacks")
    return WorkspaceConfiguration(
        workspace=part.build(poll),
        # Alerts wait no longer for a link than polling looks for it.
        poll=poll.build(*([callbacks] if callbacks else []), link_wait_seconds=link_wait_seconds),
        inventory=part.parts["inventory"].build(),
        callbacks=None if callbacks is None else callbacks.build(),
    )
