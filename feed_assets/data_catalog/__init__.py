"""The Data Catalog of AWS Glue: a table for each feed and source, so that Athena and others find their partitions.

Here: the tables that should be there, the requests to Glue, and making both equal. Not here: when that is done
(`sensors`), and Dagster.

A partition of a feed's table is the location of the update in force, so its readers never see two updates, or half of
one. A partition of a source's table is the prefix of a raw hour, with all its files: those that a later landing
replaced, too. Use these tables to look at what a partner sent, and the feeds to count.
"""
