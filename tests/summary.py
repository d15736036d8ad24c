"""How a test hands a line to the end of a run, in whichever process it ran."""

from __future__ import annotations

# The names of properties of a test's report; the report travels from worker to controller.
SCENARIO = "crash scenario"
WORLDS = "worlds"

# The sections at the end of a run, and the properties whose lines they show.
SECTIONS = {"crash scenarios": SCENARIO, "scripted worlds": WORLDS}
