"""What people and scripts look at: the page, the JSON API, the metrics, the daemon's health."""
