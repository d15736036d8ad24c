"""The client of one `/v4` workspace: transport, budget, pages, typed rows, named failures."""
