"""Which starts a schedule promised, and which of them came."""
