"""Validates a parsed configuration: single values first, then values that must fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from monitor.bus.settings import Retention
from monitor.config.alerting_consistency import alerting_settings, find_alerting_contradictions
from monitor.config.configuration import Configuration, WorkspaceConfiguration
from monitor.config.consistency import find_contradictions
from monitor.config.environment import default_store_url, overlaid
from monitor.config.locations import Locations, NoLocations
from monitor.config.problems import Problem, Problems
from monitor.config.reading import ConfigurationReader, ReadTable
from monitor.config.sections import OUTPUTS, SECTIONS
from monitor.model.errors import ConfigurationError
from monitor.model.notifying import why_not_notified
from monitor.outputs.records import output_types
from monitor.tracking.settings import TrackingSettings


class ValidationResult(Struct, frozen=True, kw_only=True):
    """Either a configuration, or every problem of what was given; and what to be warned of."""

    configuration: Configuration | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


NO_LOCATIONS = NoLocations()


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
    find_contradictions(repeated["workspaces"], parts, problems)
    find_alerting_contradictions(repeated, parts.get("alerting"), problems)
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
        outputs={name: part.build() for name, part in parts.items() if part.section in OUTPUTS},
        server=parts["server"].build(),
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


def _unnotified(configuration: Configuration) -> tuple[Problem, ...]:
    """Return the warning that no alert reaches anybody."""
    alerting, types = configuration.alerting, output_types(configuration.outputs)
    why = why_not_notified(types)
    if why is None or not alerting.rules or not alerting.warn_without_output:
        return ()
    hint = (
        f"nobody is notified: {why}; where Prometheus' rules notify people, set "
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
