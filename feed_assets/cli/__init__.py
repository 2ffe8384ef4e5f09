"""The command line, `feed-assets`.

Here: arguments, output and exit codes. Not here: what the commands do; programs call that in the rooms below.
Each command loads only the rooms it needs, so that `feed-assets feed latest` answers at once.
"""
