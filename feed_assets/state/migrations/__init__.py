"""The migrations of the schema, in `versions`; a released migration never changes."""
