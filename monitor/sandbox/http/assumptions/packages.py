"""What is assumed of packages."""

from __future__ import annotations

from monitor.sandbox.http.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = ()
