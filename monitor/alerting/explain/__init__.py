"""Why an alert came or did not, and what other rules would have told."""
