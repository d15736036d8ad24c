"""What a request says."""
