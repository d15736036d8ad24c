"""The shape of a family before it has samples: name, type, help and labels."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily


class FamilyType(StrEnum):
    """The OpenMetrics type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class FamilyShape(Struct, frozen=True):
    """One family before it has samples. ``name`` is the name of its series."""

    name: str
    form: FamilyType
    documentation: str
    labels: tuple[str, ...] = ()

    def counter(self) -> CounterMetricFamily:
        return CounterMetricFamily(self.name, self.documentation, labels=self.labels)

    def gauge(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            self.name, self.documentation, labels=self.labels, unit=self._unit()
        )

    def histogram(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(
            self.name, self.documentation, labels=self.labels, unit=self._unit()
        )

    def info(self) -> InfoMetricFamily:
        return InfoMetricFamily(self.name.removesuffix("_info"), self.documentation)

    def family(self) -> Family:
        """Return the family without samples."""
        match self.form:
            case FamilyType.COUNTER:
                return self.counter()
            case FamilyType.GAUGE:
                return self.gauge()
            case FamilyType.HISTOGRAM:
                return self.histogram()
            case FamilyType.INFO:
                return self.info()

    def _unit(self) -> str:
        last = self.name.rsplit("_", maxsplit=1)[-1]
        return last if last in ("seconds", "bytes") else ""
