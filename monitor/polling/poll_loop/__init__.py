"""The loop of every poll: its attempts and intervals, and what its failures show."""
