"""Spark at the edge: its session and Java, the paths it takes, and the files of updates read and written.

Here: everything that starts Spark or touches files through it. Not here: what is read and why, and what the rows mean.
"""
