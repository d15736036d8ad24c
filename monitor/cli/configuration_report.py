"""Reports what a configuration switches on, or all that is wrong with it."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from monitor.app.hosted.outputs import find_path_problems
from monitor.bus.postgres_address import PostgresAddress
from monitor.callbacks.settings import ListenerSettings
from monitor.cli.certificate_files import examine_certificates
from monitor.cli.database_check import UNREACHABLE, check_database
from monitor.cli.doubtful_entries import doubtful_entries
from monitor.cli.settings_files import validate_file
from monitor.cli.store_access import StoreProblem, as_problem, check_store_access
from monitor.cli.tables import print_json
from monitor.config import Configuration, Problem, ValidationResult, config_hash
from monitor.config.problems import without_credentials
from monitor.model.checks import CheckOutcome
from monitor.outputs.records import RECORDS


def report(config: Path, *, as_json: bool) -> bool:
    """Print a summary on stdout, or all problems on stderr; True when there are none.

    Warnings go to stderr and are no problems.
    """
    result = _with_path_problems(_with_store(validate_file(config)))
    result, certificates = _as_of_now(result)
    if as_json:
        _print_json(result, certificates)
        return result.configuration is not None
    sys.stderr.writelines(f"warning: {warning}\n" for warning in result.warnings)
    if result.configuration is None:
        sys.stderr.writelines(f"{problem}\n" for problem in result.problems)
        return False
    sys.stdout.write(f"ok: {'; '.join([*summary(result.configuration), *certificates])}\n")
    return True


def _with_store(result: ValidationResult) -> ValidationResult:
    """Try the store of settings that have no problem of their own."""
    if result.configuration is None:
        return result
    storage = result.configuration.storage
    if (address := storage.postgres) is not None:
        problems, doubts = _of_database(result.configuration, address)
    else:
        checked = check_store_access(storage.url)
        problems = [] if checked.problem is None else [as_problem(storage.url, checked.problem)]
        doubts = [as_problem(storage.url, doubt) for doubt in checked.doubts]
    warnings = (*result.warnings, *doubts)
    if not problems:
        return msgspec.structs.replace(result, warnings=warnings)
    return ValidationResult(configuration=None, problems=tuple(problems), warnings=warnings)


def _of_database(
    configuration: Configuration, address: PostgresAddress
) -> tuple[list[Problem], list[Problem]]:
    """Return problems, and what to be warned of: also that it cannot be reached from here."""
    problems: list[Problem] = []
    doubts: list[Problem] = []
    url = configuration.storage.url
    for line in asyncio.run(check_database(configuration, address)):
        problem = StoreProblem(found=line.found, hint=line.hint or "")
        if line.outcome is CheckOutcome.FAILED and line.hint != UNREACHABLE:
            problems.append(as_problem(url, problem))
        elif line.outcome is not CheckOutcome.OK:
            doubts.append(as_problem(url, problem))
    return problems, doubts


def _with_path_problems(result: ValidationResult) -> ValidationResult:
    """Add what on this machine keeps outputs from working, as far as files show it."""
    if result.configuration is None:
        return result
    problems = find_path_problems(result.configuration.outputs)
    if not problems:
        return result
    return ValidationResult(configuration=None, problems=tuple(problems), warnings=result.warnings)


def _as_of_now(result: ValidationResult) -> tuple[ValidationResult, list[str]]:
    """Try what depends on the time: entries, and the certificates of the listeners.

    Returns with the result what is found in the certificates.
    """
    if result.configuration is None:
        return result, []
    findings = examine_certificates(result.configuration, now=datetime.now(UTC))
    problems = tuple(finding.problem for finding in findings if finding.problem is not None)
    doubts = [doubt for finding in findings for doubt in finding.doubts]
    doubts += doubtful_entries(result.configuration, now=datetime.now(UTC))
    examined = ValidationResult(
        configuration=None if problems else result.configuration,
        problems=problems,
        warnings=(*result.warnings, *doubts),
    )
    return examined, [finding.summary for finding in findings if finding.problem is None]


def summary(configuration: Configuration) -> list[str]:
    """Return what the configuration switches on, in a few words each."""
    callbacks, server = configuration.callbacks, configuration.server
    names = [workspace.name for workspace in configuration.workspaces]
    marks = [
        mark
        for mark, is_set in (
            ("TLS", server.tls is not None),
            ("auth", server.has_auth),
            ("allow_anonymous: all who can reach it may do everything", server.is_open),
        )
        if is_set
    ]
    guarded = f" ({', '.join(marks)})" if marks else ""
    return [
        f"{_counted(len(names), 'workspace')} ({', '.join(names)})",
        _alerts(configuration),
        *_outputs(configuration),
        f"server {server.listen}{guarded}",
        _callbacks(callbacks),
        f"store {without_credentials(configuration.storage.url)}",
    ]


def _callbacks(settings: ListenerSettings | None) -> str:
    if settings is None:
        return "callbacks off"
    return f"callbacks {settings.listen}{'' if settings.tls is None else ' (TLS)'}"


def _alerts(configuration: Configuration) -> str:
    alerting = configuration.alerting
    rules, silences = len(alerting.rules), len(alerting.silences)
    silenced = f" and {_counted(silences, 'silence')}" if silences else ""
    return f"{_counted(rules, 'alert rule')}{silenced}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s'[: count != 1]}"


def _outputs(configuration: Configuration) -> list[str]:
    summaries: list[str] = []
    for record in RECORDS:
        settings = configuration.outputs.get(record.section)
        if settings is not None:
            summaries += [
                f"{record.section} {receiver}"
                for own in record.split(settings)
                for receiver in record.receivers(own)
            ]
        elif record.is_usual:
            summaries.append(f"{record.section} off")
    return summaries


def _print_json(result: ValidationResult, certificates: list[str]) -> None:
    configuration = result.configuration
    print_json(
        {
            "ok": configuration is not None,
            "config_hash": None if configuration is None else config_hash(configuration),
            "summary": [] if configuration is None else [*summary(configuration), *certificates],
            "problems": result.problems,
            "warnings": result.warnings,
        }
    )
