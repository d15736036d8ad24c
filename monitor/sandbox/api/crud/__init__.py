"""Create, read, list, count, change and delete, alike for all resources."""
