"""What can be set about alerts, and what is wrong with it."""
