"""Evidence that is added to an alert: of a condition that holds on, or of what was over. Pure."""

from __future__ import annotations

import msgspec

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.rules.contract import Firing
from monitor.model.alerts import Alert

EVIDENCE_KEPT = 50


def with_evidence(
    instance: AlertInstance, result: Firing, fresh: Alert, *, is_news: bool
) -> AlertInstance:
    """Return the alert with what the result adds to it; the same object where it adds nothing."""
    alert = instance.alert
    evidence, facts = result.evidence[-EVIDENCE_KEPT:], {**alert.facts, **result.facts}
    new = tuple(event_id for event_id in evidence if event_id not in alert.evidence)
    if new or is_news or facts != alert.facts:
        kept = (*alert.evidence, *new)
        if len(kept) > EVIDENCE_KEPT:
            # Ids that the result no longer names go first, or the rest would be new each time.
            kept = tuple(sorted(kept, key=evidence.__contains__)[-EVIDENCE_KEPT:])
        alert = msgspec.structs.replace(
            alert,
            evidence=kept,
            evidence_count=alert.evidence_count + len(new),
            facts=facts,
            templates=fresh.templates,
        )
    elif instance.is_met and instance.clear_since is None:
        return instance
    return msgspec.structs.replace(
        instance,
        alert=alert,
        clear_since=None,
        quiet_since=None,
        is_met=True,
        newest_run=(result.run if new else None) or instance.newest_run,
    )


def with_late_evidence(instance: AlertInstance, evidence: tuple[str, ...]) -> AlertInstance:
    """Return the alert with evidence of what was over; it lasts no longer because of it."""
    known = instance.alert.evidence
    new = tuple(event_id for event_id in evidence if event_id not in known)
    if not new:
        return instance
    alert = msgspec.structs.replace(
        instance.alert,
        evidence=(*known, *new)[-EVIDENCE_KEPT:],
        evidence_count=instance.alert.evidence_count + len(new),
    )
    return msgspec.structs.replace(instance, alert=alert)
