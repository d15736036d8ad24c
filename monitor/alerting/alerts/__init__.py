"""The life cycle of alerts: state, outcome, suppression, timers."""
