"""The migrations, oldest first. A released migration never changes."""
