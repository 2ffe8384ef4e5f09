"""Alembic migrations of the tables of data dependencies."""
