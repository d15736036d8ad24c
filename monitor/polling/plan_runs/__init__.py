"""Plan runs: listed by their last writes, each labelled with its plan."""
