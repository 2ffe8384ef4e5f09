"""`feed-assets prepare`: what Spark can have ready before its first start. Not here: making it (`engine`)."""

from __future__ import annotations

import click

from feed_assets.cli.output import each_step, file_size, progress


@click.command()
def prepare() -> None:
    """Archive the classes that Spark loads, so that every start of it takes half of the processor time.

    Takes half a minute and 200 MB of this user's cache, once for each Java and each version of Spark. With a base in a
    bucket, also fetches Spark's jars for S3, which the first run would fetch.
    """
    from feed_assets.engine.buckets import bucket_jars  # noqa: PLC0415 - loads pyspark
    from feed_assets.engine.class_archive import make_archive  # noqa: PLC0415 - as above
    from feed_assets.resources.settings import Settings  # noqa: PLC0415 - loads Dagster

    in_bucket = Settings.from_environment().base.startswith("s3://")
    with progress("prepare", 1 + in_bucket) as bar:
        starting = each_step(bar)
        starting("Spark's classes")
        archive = make_archive()
        click.echo(f"Spark's classes: {archive}{file_size(archive)}")
        if in_bucket:
            starting("Spark's jars for S3")
            jars = bucket_jars()
            click.echo(f"Spark's jars for S3: {len(jars)} in {jars[0].parent}")
        bar()
