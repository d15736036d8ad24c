"""How every poll runs: its attempts and intervals, and what its failures show."""
