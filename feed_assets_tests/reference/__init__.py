"""The pages in `docs/reference` that are generated: the YAML of sources, the commands, and the API."""
