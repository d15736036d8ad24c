"""What is assumed of flows and folders."""

from __future__ import annotations

from monitor.sandbox.http.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = ()
