"""The consumer ``alerting``: route, evaluate, advance, commit."""
