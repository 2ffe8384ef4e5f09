"""Settings, the clock, storage, Spark, alerts and mail, as Dagster resources.

Here: reading the environment, opening connections, starting the JVM. Not here: what runs do with them.
"""
