"""Assets as Spark jobs: on EMR Serverless, on EMR, or by `spark-submit`, started by Dagster Pipes.

Here: the definitions that start a job for each step (`launched`), ways to start it (`launchers`), its messages, and the
job itself (`entry`). Not here: the step and the audit; the job runs the assets and audits that run elsewhere, too.
"""
