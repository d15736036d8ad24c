"""Follow every run of a data-preparation workspace and tell it exactly once."""

__version__ = "0.1.0"
