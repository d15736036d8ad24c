"""The record of the output ``alertmanager``."""

from __future__ import annotations

from monitor.model.events import EventType
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.record import OutputRecord
from monitor.outputs.settings import receiver_of

# The other events change nothing there: Alertmanager reminds and silences by itself.
_TYPES = frozenset({EventType.ALERT_FIRED, EventType.ALERT_FLAPPING, EventType.ALERT_RESOLVED})


def _receivers(settings: AlertmanagerSettings) -> list[str]:
    return [receiver_of(url) for url in settings.urls]


ALERTMANAGER = OutputRecord(
    section="alertmanager",
    settings=AlertmanagerSettings,
    output="monitor.outputs.alertmanager.output:AlertmanagerOutput",
    receivers=_receivers,
    types=lambda _: _TYPES,
    is_one_each=True,
)
