"""Datasets that a project declares in YAML: what they are, and who says how many records their slots have."""
