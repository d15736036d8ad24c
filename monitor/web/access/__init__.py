"""Recognises who asks, by each way in, and holds each route to the role that it needs."""
