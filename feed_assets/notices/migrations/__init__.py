"""The migrations of this room's tables, in `versions`; a released migration never changes."""
