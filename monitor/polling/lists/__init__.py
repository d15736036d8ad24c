"""What a list must show: rows that are known to be there, and the doubt when it lacks them."""
