"""The embedded store: one file, one writer thread with group commit, one reader thread."""

from monitor.bus.sqlite.store import SqliteBus

__all__ = ["SqliteBus"]
