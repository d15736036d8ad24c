"""Counts and logs what came of observations."""

from __future__ import annotations

import structlog
from prometheus_client import CollectorRegistry, Counter

from monitor.model.events import EventType
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.registries import made_once, process_registry
from monitor.model.runs import Implausible, Source
from monitor.tracking.transitions import RunTransition

log = structlog.get_logger()


def _observations(registry: CollectorRegistry) -> Counter:
    return Counter(
        "dataprep_monitor_observations",
        "Observations of runs, by source and outcome.",
        ["source", "outcome"],
        registry=registry,
    )


class ObservationCounts:
    """The daemon's own counters of observations; they live with the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._observations = made_once(_observations, process_registry(registry))
        self._contradictions = Counter(
            "dataprep_monitor_contradictions",
            "Ends that were reported against the known one and did not count: by callbacks, or "
            "by answers that may be older or alternate.",
            ["workspace"],
            registry=registry,
        )

        self._implausible = Counter(
            "dataprep_monitor_implausible",
            "Runs with a report of the workspace that cannot be true.",
            ["workspace", "what"],
            registry=registry,
        )

        self._missed = Counter(
            "dataprep_monitor_ends_missed",
            "Runs taken for old ones while the workspace clock was behind the start of following.",
            ["workspace"],
            registry=registry,
        )

    def add_workspace(self, workspace: str) -> None:
        """Show the workspace's counters from 0."""
        self._missed.labels(workspace)
        self._contradictions.labels(workspace)
        for mark in Implausible:
            self._implausible.labels(workspace, mark)

    def count(
        self, observation: Observation, transition: RunTransition, *, is_clock_behind: bool
    ) -> None:
        """Count one observation, now that what came of it is durable."""
        if is_clock_behind and transition.outcome is ObservationOutcome.HISTORICAL:
            self._missed.labels(observation.key.workspace).inc()
        # A callback that waits for its run is counted when that wait is over.
        if transition.outcome is not ObservationOutcome.UNCONFIRMED:
            self._observations.labels(observation.source, transition.outcome).inc()
        if transition.state is None:
            return
        if transition.outcome is ObservationOutcome.OTHER_FLOW:
            log.warning(
                "callback by the task of another flow not believed",
                run=str(observation.key),
                task_of=observation.only_of_flow,
            )
        is_first = transition.is_worth_storing
        if transition.outcome is ObservationOutcome.CONTRADICTED and is_first:
            self._contradictions.labels(observation.key.workspace).inc()
            log.warning(
                "contradicting end not believed",
                run=str(observation.key),
                known=transition.state.known_end,
                now=observation.native_status,
                source=observation.source,
            )
        for mark in transition.implausible:
            self._implausible.labels(observation.key.workspace, mark).inc()
        if transition.implausible:
            log.warning(
                "implausible run reported",
                run=str(observation.key),
                what=", ".join(transition.implausible),
                source=observation.source,
            )
        for event in transition.events:
            if event.type is EventType.RUN_CORRECTED:
                log.warning(
                    "run end corrected",
                    run=str(observation.key),
                    published=event.before,
                    workspace=event.run.status,
                )

    def give_up(self, count: int) -> None:
        """Count callbacks whose runs the workspace never confirmed."""
        if count:
            self._observations.labels(Source.CALLBACK, ObservationOutcome.UNCONFIRMED).inc(count)
            log.warning("unconfirmed callbacks dropped", count=count)

    def ignore(self, source: Source) -> None:
        """Count an observation of what is never followed."""
        self._observations.labels(source, "ignored").inc()
