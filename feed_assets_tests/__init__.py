"""The tests, and the programs beside them. Not here: any of these; but what holds for each process of them."""

import os

# Where there is no such service, boto3 and Java's client wait for it seconds before they say that they have no
# credentials; where there is one, tests must not get its credentials.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
