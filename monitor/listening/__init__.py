"""What both HTTP listeners share: connections and their caps, sources, refusals, headers."""
