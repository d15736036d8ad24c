"""All sections of the file, in the order of the reference."""

from __future__ import annotations

from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.alerting.settings import AlertingSettings, Match, RuleSettings, SilenceSettings
from monitor.bus.settings import Retention, StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.config.process_settings import LogSettings, ProcessSettings
from monitor.config.section import Sections, section_of
from monitor.config.server_section import OIDC, SERVER, SERVER_TLS
from monitor.listening.settings import TlsSettings
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.notify.settings import ChannelMatch
from monitor.outputs.records import RECORDS
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.web.settings import AccessEntry
from monitor.web.status_pages.settings import StatusPageSettings
from monitor.workspace.settings import OauthSettings, WorkspaceSettings

OUTPUTS = tuple(
    section_of(
        record.section,
        record.settings,
        is_optional=True,
        is_example=not record.is_usual,
        is_repeated=record.gathered is not None,
    )
    for record in RECORDS
)
WORKSPACES = section_of("workspaces", WorkspaceSettings, is_repeated=True)

SECTIONS = Sections(
    (
        WORKSPACES,
        section_of("workspaces.oauth", OauthSettings, is_optional=True, is_example=True),
        section_of("workspaces.poll", PollSettings, WorkspaceSettings),
        section_of("workspaces.inventory", InventorySettings),
        section_of("workspaces.callbacks", CallbackSettings, PollSettings, is_optional=True),
        *OUTPUTS,
        section_of("notify.match", ChannelMatch, is_example=True),
        SERVER,
        SERVER_TLS,
        OIDC,
        section_of("access", AccessEntry, is_optional=True, is_repeated=True, is_example=True),
        section_of(
            "status_pages", StatusPageSettings, is_optional=True, is_repeated=True, is_example=True
        ),
        section_of("callbacks", ListenerSettings, is_optional=True),
        section_of("callbacks.tls", TlsSettings, is_optional=True, is_example=True),
        section_of("storage", StorageSettings),
        section_of("storage.retention", Retention),
        section_of("metrics", MetricsSettings),
        section_of("alerting", AlertingSettings),
        section_of("alerts", RuleSettings, is_optional=True, is_repeated=True),
        section_of("alerts.match", Match),
        section_of(
            "silences", SilenceSettings, is_optional=True, is_repeated=True, is_example=True
        ),
        section_of("reports", ReportSettings, is_optional=True, is_repeated=True, is_example=True),
        section_of("reports.match", ReportMatch, is_optional=True, is_example=True),
        section_of("process", ProcessSettings),
        section_of("log", LogSettings),
    )
)
