"""Pipelines that hand data to each other over a bucket: Dagster assets on Spark, published as File Feeds."""
