"""Judges a parsed configuration and gathers all its faults. Reads no file and no environment."""

from monitor.config.configuration import Configuration, WorkspaceConfiguration, config_hash
from monitor.config.daemon_keys import LogForm, LogLevel, LogSettings
from monitor.config.faults import Fault
from monitor.config.judging import Verdict, judge, weigh
from monitor.config.places import NoPlaces, Places, SecretForm, SecretSource

__all__ = [
    "Configuration",
    "Fault",
    "LogForm",
    "LogLevel",
    "LogSettings",
    "NoPlaces",
    "Places",
    "SecretForm",
    "SecretSource",
    "Verdict",
    "WorkspaceConfiguration",
    "config_hash",
    "judge",
    "weigh",
]
