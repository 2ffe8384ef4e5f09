"""Spark at the edge: its session and Java, its paths, and reading and writing the files of updates.

Here: all code that starts Spark or touches files through it. Not here: which files are read, and what rows mean.
"""
