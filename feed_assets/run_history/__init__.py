"""Run history: how long runs take, how late they start, how much they read, and what follows from it.

Words: a *series* is work that repeats, such as the runs of a schedule, those of an asset, or the tasks of a type. An
*execution* is one run, or one task, of it. Its *delay* is the time from when it was wanted to its start. The *interval*
of a series is the usual time between two of its executions.

Here: the table of executions (`tables`), the warning that runs will overlap (`overlap`), the day on which a deadline
will be missed (`capacity`), figures of tasks (`task_figures`), and all together (`health`); and the steps that run now
(`live`), which are watched (`watching`). Not here: Dagster, whose runs fill the tables, and notices.
"""
