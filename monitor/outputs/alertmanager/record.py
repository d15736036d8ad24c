"""The record of the output ``alertmanager``."""

from __future__ import annotations

from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.record import OutputRecord
from monitor.outputs.settings import receiver_of


def _receivers(settings: AlertmanagerSettings) -> list[str]:
    return [receiver_of(url) for url in settings.urls]


ALERTMANAGER = OutputRecord(
    section="alertmanager",
    settings=AlertmanagerSettings,
    output="monitor.outputs.alertmanager.output:AlertmanagerOutput",
    receivers=_receivers,
    is_one_each=True,
)
