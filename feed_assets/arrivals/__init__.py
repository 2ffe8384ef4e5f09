"""What arrives of each source: when, how much, and in which columns.

Here: hours of arrival, silence, and changes of columns. Not here: whether days run again (`late_data`), what landing
counts (`sources`), and telling people (`sensors.arrivals`).
"""
