"""What is assumed of connections, datasets and recipes."""

from __future__ import annotations

from monitor.sandbox.http.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = ()
