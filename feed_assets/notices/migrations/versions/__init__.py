"""The schemas, oldest first by their names."""
