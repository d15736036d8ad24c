"""Monitor every run of a data-preparation workspace: one id per transition, at least once."""

__version__ = "0.1.0"
