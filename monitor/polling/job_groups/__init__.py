"""Job groups: listed by their last writes, completed and observed."""
