"""What is exported as a ZIP and imported again."""
