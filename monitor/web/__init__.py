"""For people and scripts: the page, the JSON API, the metrics endpoint, and health."""
