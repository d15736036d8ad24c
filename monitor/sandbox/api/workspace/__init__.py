"""The workspace itself: configuration and usage."""
