"""The pages in `docs/reference` that are generated: the YAML of sources, the settings, the commands, and the API."""
