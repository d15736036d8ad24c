"""What a workspace tells beyond its runs, read slowly: one file for each thing that is read."""
