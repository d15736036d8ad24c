"""Reports: computed on request from runs, alerts and live state; nothing is maintained."""
