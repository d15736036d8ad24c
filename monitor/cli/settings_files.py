"""Reads the configuration, the secrets and the files that it names, from disk and environment."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monitor import config
from monitor.cli import FILE_VARIABLE
from monitor.cli.bounded_reads import read_file
from monitor.cli.secret_commands import output_of
from monitor.config.locations import SecretForm, SecretSource
from monitor.config.problems import Problem
from monitor.config.server_section import parse_server
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings

MAX_FILE_BYTES = 1_048_576
MAX_SECRET_BYTES = 65_536
_CREDENTIALS = "CREDENTIALS_DIRECTORY"  # variable that systemd gives a service
READ_SECONDS = 5.0  # for one file; what is a pipe may have no writer


class DiskLocations:
    """Reads secrets and finds files as the configuration names them.

    A relative path begins at ``folder``, which is the configuration file's own, and one of a file
    that is a credential at ``$CREDENTIALS_DIRECTORY/``.
    """

    def __init__(self, *, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self.secret_files: list[Path] = []  # those that were read

    def read_secret(self, source: SecretSource) -> Secret:
        if source.form is SecretForm.ENV:
            return self._from_variable(source.location)
        if source.form is SecretForm.CREDENTIAL:
            return self._from_credential(source.location)
        if source.form is SecretForm.COMMAND:
            return self._from_command(source.location)
        return self._from_file(self._folder / source.location)

    def find_file(self, path: str) -> str:
        absolute = self._absolute(path)
        try:
            # A library opens the file again, and would wait for the writer of a pipe.
            if absolute.exists() and not absolute.is_file():
                raise ConfigurationError("is no regular file; name one that is")
            with absolute.open("rb"):
                return str(absolute)
        except (OSError, ValueError) as exc:
            raise ConfigurationError(_why(exc)) from exc

    def _from_variable(self, name: str) -> Secret:
        text = self._environment.get(name)
        if text is None:
            raise ConfigurationError("is no variable of the environment; set it, or use a file")
        return Secret(text)

    def _from_credential(self, name: str) -> Secret:
        return self._from_file(self._credential(name))

    def _credential(self, name: str) -> Path:
        folder = self._environment.get(_CREDENTIALS)
        if not folder:
            raise ConfigurationError(
                "the service was given no credentials; "
                f"add LoadCredential={name}:/path/to/it to its unit, "
                f"or set {_CREDENTIALS} where you type the command"
            )
        return Path(folder) / name

    def _absolute(self, path: str) -> Path:
        name = path.removeprefix(f"${_CREDENTIALS}/")
        return (self._folder / path).absolute() if name == path else self._credential(name)

    def _from_command(self, command: str) -> Secret:
        content = output_of(
            shlex.split(command),
            folder=self._folder,
            environment=self._environment,
            limit_bytes=MAX_SECRET_BYTES,
        )
        return _secret_of(content, "prints no text; give a command that prints the secret")

    def _from_file(self, path: Path) -> Secret:
        secret = _secret_in(path)
        if path not in self.secret_files:  # it may be read again
            self.secret_files.append(path)
        return secret


class PathsOnly(DiskLocations):
    """Reads secrets as `DiskLocations` does; other files may be for the daemon's user only."""

    def find_file(self, path: str) -> str:
        return str(self._absolute(path))


def _secret_in(path: Path) -> Secret:
    try:
        content = read_file(path, limit_bytes=MAX_SECRET_BYTES, limit_seconds=READ_SECONDS)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(_why(exc)) from exc
    if len(content) > MAX_SECRET_BYTES:
        raise ConfigurationError("is too large for a secret; name the file that holds only it")
    return _secret_of(content, "is no text; name the file that holds the secret")


def _secret_of(content: bytes, hint: str) -> Secret:
    try:
        return Secret(content.decode().rstrip("\r\n"))
    except UnicodeDecodeError:
        raise ConfigurationError(hint) from None  # the cause holds the content


def _why(exc: OSError | ValueError) -> str:
    if isinstance(exc, ValueError):
        return "holds a character that no path can hold; name a file that can be"
    if isinstance(exc, TimeoutError):
        return f"is a pipe that does not end within {READ_SECONDS:g} s; name a file"
    if isinstance(exc, FileNotFoundError):
        return "there is no such file; create it or name another"
    if isinstance(exc, PermissionError):
        return "may not be read; give the user that runs the monitor the right to"
    return f"cannot be read ({exc.strerror}); name a file that can"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the parsed file.

    Raises:
        ConfigurationError: it cannot be read or is no TOML; the sentence names the place.
    """
    try:
        content = read_file(path, limit_bytes=MAX_FILE_BYTES, limit_seconds=READ_SECONDS)
    except OSError as exc:
        # Another file is no way out where this one only lacks a right.
        named = "" if isinstance(exc, PermissionError) else f", with -c or {FILE_VARIABLE}"
        raise _of_file(path, f"{_why(exc)}{named}") from exc
    if len(content) > MAX_FILE_BYTES:
        raise _of_file(path, "is too large for a configuration; name another file with -c")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as exc:
        raise _of_file(path, "is not UTF-8; save it as that") from exc
    except RecursionError as exc:
        raise _of_file(path, "is nested too deeply; no setting is") from exc
    except ValueError as exc:  # no TOML, or a number of thousands of digits
        raise _of_file(path, f"is no TOML: {exc}; mend it there") from exc


def _of_file(path: Path, hint: str) -> ConfigurationError:
    return ConfigurationError(f"configuration file: {json.dumps(str(path))}: {hint}")


def validate_file(
    path: Path,
    environment: Mapping[str, str] | None = None,
    *,
    secret_files: list[Path] | None = None,
) -> config.ValidationResult:
    """Return the configuration of a file, or all its problems; raises nothing.

    Adds to ``secret_files`` each file from which a secret was read.
    """
    environment = os.environ if environment is None else environment
    try:
        mapping = read_toml(path)
    except ConfigurationError as exc:
        key, value, hint = exc.problems[0].split(": ", 2)
        problem = Problem(key=key, value=value, hint=hint)
        return config.ValidationResult(configuration=None, problems=(problem,))
    locations = DiskLocations(folder=path.absolute().parent, environment=environment)
    result = config.validate(mapping, environment, locations=locations)
    if secret_files is not None:
        secret_files += locations.secret_files
    return result


def load(path: Path, environment: Mapping[str, str] | None = None) -> config.Configuration:
    """Return the configuration of a file.

    Raises:
        ConfigurationError: with one sentence for every problem.
    """
    result = validate_file(path, environment)
    if result.configuration is None:
        raise ConfigurationError([str(problem) for problem in result.problems])
    return result.configuration


def load_server(path: Path, environment: Mapping[str, str] | None = None) -> ServerSettings:
    """Return the settings of the server of a file, with its secrets; nothing else is read.

    Raises:
        ConfigurationError: with one sentence for every problem of that section.
    """
    environment = os.environ if environment is None else environment
    locations = PathsOnly(folder=path.absolute().parent, environment=environment)
    return parse_server(read_toml(path), environment, locations=locations)
