"""Whether a cluster kept its promises: what happened, beside what was received from whom when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from monitor.bus.shards import CLUSTER
from tests.app.eventually import pause
from tests.app.fixture import SECRET
from tests.app.mqtt_subscriber import End, counted, ends_in
from tests.crash.cluster import alert_judge, takeovers
from tests.crash.cluster.database import LeaseChange
from tests.crash.cluster.scenario import Cluster
from tests.crash.cluster.takeovers import Holders, quantiles
from tests.crash.sent_alerts import sent_and_resent

KINDS = ("flow_run", "job_group", "plan_run")
# From the instant of a takeover until what was on its way before has arrived, on a busy machine.
GRACE_SECONDS = 0.3
_PATIENCE_SECONDS = 180.0  # a busy machine takes leases away, and each takeover reads everything
STOP_SECONDS = 10.0  # of a daemon that ends in order, however late its database answers
TAKEOVER_SECONDS = 15.0  # at the default lease, on a machine that has time for it
_AGREE_SECONDS = 0.5  # the networks of the daemons share the loop with what is compared


class Findings(Struct, kw_only=True):
    """What a scenario came to. Everything in ``broken`` is a fault of the daemons."""

    runs: int = 0
    events: int = 0
    acknowledged: int = 0
    refused: int = 0
    alerts: int = 0
    fenced: int = 0
    promotions: int = 0
    lost: int = 0
    claims: list[float] = []  # seconds until a shard had another holder
    takeovers: list[float] = []  # until that holder published a state of it
    failovers: list[float] = []  # until the new primary had something of every workspace
    stops: list[float] = []  # until a daemon had ended in order
    sent: int = 0  # alerts in all requests to Alertmanager
    resent: int = 0  # those of them that said the same as one before
    versions: dict[str, int] = {}  # events by the program that has stored them
    broken: list[str] = []

    def counts(self) -> dict[str, object]:
        """Return what the end of a test run shows."""
        return {
            "runs": self.runs,
            "events": self.events,
            "callbacks_acknowledged": self.acknowledged,
            "refused": self.refused,
            "alerts": self.alerts,
            "lost": self.lost,
            "fenced_writes": self.fenced,
            "promotions": self.promotions,
            "claims": quantiles(self.claims),
            "takeovers": quantiles(self.takeovers),
            "failovers": quantiles(self.failovers),
            "stops": quantiles(self.stops),
            "alerts_sent": self.sent,
            "alerts_resent": self.resent,
            **self.versions,
        }


async def until_agreed(scenario: Cluster) -> list[str]:
    """Return when ledgers, subscriber and counters agree; what they disagree in, if they do not."""
    difference: list[str] = []

    def agree() -> bool:
        nonlocal difference
        scenario.received.read_new()
        difference = [*_ends(scenario), *_totals(scenario), *alert_judge.open_alerts(scenario)]
        return not difference

    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE_SECONDS
    while not agree() and loop.time() < end:
        await pause(_AGREE_SECONDS)
    return difference


async def judge(scenario: Cluster) -> Findings:
    """Compare everything, once the load is over; then end the daemons in order."""
    await scenario.until_settled()
    findings = Findings(
        broken=await until_agreed(scenario),
        acknowledged=len(scenario.load.acknowledged),
        refused=scenario.load.refused.total(),
        fenced=scenario.counters.fenced_writes,
        promotions=scenario.database.promotions,
        failovers=scenario.failovers,
        versions=await scenario.database.events_by_version(),
    )
    for sandbox in scenario.workspaces.values():
        findings.runs += sum(sandbox.ledger.begun().values())
    findings.lost = sum(len(ends) for ends in _missing(scenario).values())
    findings.broken += _transitions(scenario, findings)
    findings.alerts = alert_judge.fired_count(scenario)
    findings.broken += alert_judge.fired_in_turn(scenario)
    findings.broken += alert_judge.reopened(scenario)
    findings.broken += alert_judge.interrupted(scenario)
    findings.broken += alert_judge.taken_back(scenario)
    findings.sent, findings.resent = sent_and_resent(scenario.alertmanager_watch.sent)
    findings.broken += scenario.broken
    findings.broken += [
        f"nothing was {what}" for what, events in findings.versions.items() if not events
    ]
    findings.broken += scenario.counters.went_back[:5]
    changes = await scenario.database.leases()
    holders = Holders(changes)
    _keep_evidence(scenario, changes)
    findings.claims = list(takeovers.claims(scenario, holders))
    findings.takeovers = list(takeovers.takeovers(scenario, holders))
    findings.broken += [
        f"a daemon went on after {seconds:.1f} s"
        for seconds in (*findings.takeovers, *findings.failovers)
        if seconds > TAKEOVER_SECONDS
    ]
    findings.broken += _states(scenario, holders)
    findings.broken += await scenario.database.foreign_writes()
    findings.broken += await _callbacks(scenario)
    await asyncio.gather(*(member.stop() for member in scenario.members))
    findings.stops = [seconds for member in scenario.members for seconds in member.stops]
    findings.broken += [
        f"a daemon took {seconds:.1f} s to end"
        for seconds in findings.stops
        if seconds > STOP_SECONDS
    ]
    findings.broken += [
        f"{member.name} logged {word!r}"
        for member in scenario.members
        for word in (SECRET, "Traceback", "Unclosed", "never retrieved", "was destroyed")
        if word in member.process.log
    ]
    return findings


def _missing(scenario: Cluster) -> dict[str, set[End]]:
    return {
        workspace: ends_in(sandbox.ledger, KINDS) - scenario.received.of_runs[workspace].ends()
        for workspace, sandbox in scenario.workspaces.items()
    }


def _ends(scenario: Cluster) -> list[str]:
    """Return ends that were not received, and received ones that never were."""
    broken = []
    for workspace, sandbox in scenario.workspaces.items():
        happened = ends_in(sandbox.ledger, KINDS)
        received = scenario.received.of_runs[workspace].ends()
        if happened != received:
            broken.append(
                f"{workspace}: {len(happened - received)} ends are missing "
                f"{sorted(happened - received)[:5]}, {len(received - happened)} are invented "
                f"{sorted(received - happened)[:5]}"
            )
    return broken


def _totals(scenario: Cluster) -> list[str]:
    """Return workspaces whose counters, over all daemons, differ from what happened."""
    broken = []
    for workspace, sandbox in scenario.workspaces.items():
        happened = sum(counted(ends_in(sandbox.ledger, KINDS)).values())
        shown = sum(
            value
            for series in scenario.counters.latest.values()
            for name, value in series.items()
            if name.startswith("dataprep_runs_total{") and f'workspace="{workspace}"' in name
        )
        if shown != happened:
            broken.append(f"{workspace}: {shown:.0f} runs are counted, {happened} ended")
    return broken


def _transitions(scenario: Cluster, findings: Findings) -> list[str]:
    broken = []
    for workspace in scenario.workspaces:
        received = scenario.received.of_runs[workspace]
        findings.events += len(received.events)
        broken += [
            f"{identity} came with two contents: {sorted(events.contents[identity])}"
            for events in (received, scenario.received.of_alerts[workspace])
            for identity in events.ambiguous()[:3]
        ]
        if wrong := received.out_of_order():
            broken.append(f"{workspace}: out of order {dict(list(wrong.items())[:5])}")
    return broken


def _states(scenario: Cluster, holders: Holders) -> list[str]:
    """Return states that came from a daemon that did not hold the shard any more."""
    broken: Counter[str] = Counter()
    shards = {*scenario.workspaces, CLUSTER}
    for where, states in (
        ("MQTT", scenario.broker_watch.published),
        ("Alertmanager", scenario.alertmanager_watch.sent),
    ):
        for state in states:
            if state.shard not in shards or not state.daemon:
                continue
            then = holders.of(state.shard, since=state.at - GRACE_SECONDS, until=state.at)
            if state.daemon not in then:
                broken[f"{where}: {state.daemon} published {state.shard} held by {then}"] += 1
    for exposure in scenario.counters.exposures:
        then = holders.of(
            exposure.workspace, since=exposure.asked_at - GRACE_SECONDS, until=exposure.answered_at
        )
        if exposure.daemon not in then:
            broken[f"/metrics of {exposure.daemon} has {exposure.workspace} held by {then}"] += 1
    return [f"{what} ({times} times)" for what, times in broken.items()]


def _keep_evidence(scenario: Cluster, changes: Sequence[LeaseChange]) -> None:
    """Write what was received from whom when beside the logs."""
    evidence = {
        "leases": changes,
        "alertmanager": scenario.alertmanager_watch.sent,
        "notified": [request.json() for request in scenario.notified.requests],
        "alertmanager_reads": scenario.alertmanager_reads.reads,
        "retained": scenario.broker_watch.published,
        "received": [
            (message.topic, message.payload.decode()) for message in scenario.subscriber.messages
        ],
    }
    scenario.folder.joinpath("evidence.json").write_bytes(msgspec.json.encode(evidence))


async def _callbacks(scenario: Cluster) -> list[str]:
    """Return acknowledged callbacks that the database does not know."""
    known = await scenario.database.fingerprints()
    lost = {callback.fingerprint for callback in scenario.load.acknowledged} - known
    return [f"{len(lost)} acknowledged callbacks are lost: {sorted(lost)[:5]}"] if lost else []
