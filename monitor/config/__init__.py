"""Validates a parsed configuration and gathers all its problems. Reads no file or environment."""

from monitor.config.configuration import (
    Configuration,
    WorkspaceConfiguration,
    changes_needing_restart,
    config_hash,
    files_of,
    without_locations,
)
from monitor.config.locations import Locations, NoLocations, SecretForm, SecretSource
from monitor.config.log_settings import LogForm, LogLevel, LogSettings
from monitor.config.problems import Problem
from monitor.config.validation import ValidationResult, parse_configuration, validate

__all__ = [
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
    "validate",
    "without_locations",
]
