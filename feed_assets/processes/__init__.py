"""Processes: starting, supervising and ending them, and Ctrl-C.

Here: a child that exchanges messages with its parent (`child`), when a child that ended starts again (`restarts`), a
program with all that it starts (`group`), the process that others are forked from (`fork_server`), whether a process
still lives (`identity`), and signals (`signals`). Not here: what a process does. No Dagster, no Spark.
"""
