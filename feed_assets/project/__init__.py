"""A Dagster project whose assets are feeds: its settings, sources, days and definitions.

Here: the parts that all projects share, the worked example included (`assembly`), and loading a project by the name of
its module (`loading`). Not here: the assets of a project.
"""
