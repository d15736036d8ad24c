"""The section [server] alone: what a command needs that calls the daemon of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.config.environment import PREFIX, overlaid
from monitor.config.locations import Locations
from monitor.config.problems import Problems
from monitor.config.reading import ConfigurationReader
from monitor.config.section import Sections, section_of
from monitor.listening.settings import TlsSettings
from monitor.model.errors import ConfigurationError
from monitor.web.settings import OidcSettings, ServerSettings

SERVER = section_of("server", ServerSettings)
OIDC = section_of("server.oidc", OidcSettings, is_optional=True, is_example=True)
SERVER_TLS = section_of("server.tls", TlsSettings, is_optional=True, is_example=True)
_ALONE = Sections((SERVER, SERVER_TLS, OIDC))
_VARIABLES = f"{PREFIX}{SERVER.path.upper()}__"


def parse_server(
    mapping: Mapping[str, Any], environment: Mapping[str, str], *, locations: Locations
) -> ServerSettings:
    """Return the server's settings, whatever is wrong elsewhere; other secrets are not read.

    Raises:
        ConfigurationError: with one sentence ``key: value: hint`` for each problem.
    """
    problems = Problems()
    own = {name: mapping[name] for name in (SERVER.path,) if name in mapping}
    variables = {name: text for name, text in environment.items() if name.startswith(_VARIABLES)}
    reader = ConfigurationReader(locations=locations, problems=problems, sections=_ALONE)
    _, parts = reader.root(overlaid(own, variables, problems, sections=_ALONE))
    if problems.found:
        raise ConfigurationError([str(problem) for problem in problems.found])
    server: ServerSettings = parts[SERVER.path].build()
    return server
