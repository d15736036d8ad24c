"""The parts shared by both HTTP listeners: connections and caps, sources, refusals, headers."""
