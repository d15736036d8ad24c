"""How a test hands a line to the end of a run, in whichever process it ran."""

from __future__ import annotations

# The name of a property of a test's report; the report travels from worker to controller.
SCENARIO = "crash scenario"
