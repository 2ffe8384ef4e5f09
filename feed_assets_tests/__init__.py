"""The tests, and the programs beside them. Not here: any of these; but what holds for each process of them."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
"""The repository: where `python -m feed_assets_tests...` finds its module, which no environment has."""

# Where there is no such service, boto3 and Java's client wait for it seconds before they say that they have no
# credentials; where there is one, tests must not get its credentials.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
