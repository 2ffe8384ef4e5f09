"""The project `shop`, with jobs of EMR Serverless that compute its feeds. Dagster loads this module instead of shop's.

Here: where the jobs run. Not here: what they compute (`shop.definitions`).
"""

import os

import dagster as dg
from shop import definitions as shop

import feed_assets as fa

CODE = os.environ["EMR_CODE"]  # such as s3://my-code/shop/1.4

defs = fa.launched(
    shop.defs,
    fa.EMRServerless(
        application_id=dg.EnvVar("EMR_APPLICATION_ID"),
        execution_role_arn=dg.EnvVar("EMR_JOB_ROLE_ARN"),
        entry_point=f"{CODE}/entry.py",
        archive=f"{CODE}/environment.tar.gz",
        spark_parameters=(
            "--conf spark.executor.memory=14g --conf spark.executor.cores=4 "
            f"--jars {CODE}/spark-hadoop-cloud_2.13-4.1.1.jar"
        ),
        job_run={"executionTimeoutMinutes": 240},
    ),
    module=__name__,
)
