"""What is assumed of output objects and their destinations."""

from __future__ import annotations

from monitor.sandbox.http.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = ()
