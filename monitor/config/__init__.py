"""Validates a parsed configuration and gathers all its problems. Reads no file or environment.

What is imported from here loads when it is used first: the settings of all rooms are many, and a
command that only calls the daemon needs those of its server (`monitor.config.server_section`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monitor.config.changed_secrets import ChangedSecrets, read_secrets_again
    from monitor.config.configuration import (
        Configuration,
        WorkspaceConfiguration,
        changes_needing_restart,
        config_hash,
        files_of,
        without_locations,
    )
    from monitor.config.locations import Locations, NoLocations, SecretForm, SecretSource
    from monitor.config.problems import Problem
    from monitor.config.process_settings import LogForm, LogLevel, LogSettings
    from monitor.config.validation import ValidationResult, parse_configuration, validate

__all__ = [
    "ChangedSecrets",
    "Configuration",
    "Locations",
    "LogForm",
    "LogLevel",
    "LogSettings",
    "NoLocations",
    "Problem",
    "SecretForm",
    "SecretSource",
    "ValidationResult",
    "WorkspaceConfiguration",
    "changes_needing_restart",
    "config_hash",
    "files_of",
    "parse_configuration",
    "read_secrets_again",
    "validate",
    "without_locations",
]

_HOMES = {
    "ChangedSecrets": "changed_secrets",
    "read_secrets_again": "changed_secrets",
    "Configuration": "configuration",
    "WorkspaceConfiguration": "configuration",
    "changes_needing_restart": "configuration",
    "config_hash": "configuration",
    "files_of": "configuration",
    "without_locations": "configuration",
    "Locations": "locations",
    "NoLocations": "locations",
    "SecretForm": "locations",
    "SecretSource": "locations",
    "LogForm": "process_settings",
    "LogLevel": "process_settings",
    "LogSettings": "process_settings",
    "Problem": "problems",
    "ValidationResult": "validation",
    "parse_configuration": "validation",
    "validate": "validation",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(name)
        return getattr(importlib.import_module(f"monitor.config.{_HOMES[name]}"), name)
