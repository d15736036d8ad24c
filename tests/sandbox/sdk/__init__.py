"""The vendor's Python SDK against the sandbox, by hand: ``python -m tests.sandbox.sdk``."""
