"""What is alike for all resources: create, read, list, count, change and delete."""
