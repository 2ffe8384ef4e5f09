"""The partitions of assets: those of a project (`days`), and the time of any partition of Dagster (`time_windows`).

Not here: the names of days (`datasets.days`), and slots of datasets (`datasets.slots`).
"""
