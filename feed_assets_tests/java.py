"""Options with which every Java that the tests start takes less processor time.

Here: the options, and the variables that carry them. Not here: anything that changes what Spark computes, and options
of the product, which follow these and so overrule them.
"""

from __future__ import annotations

import os
from unittest.mock import patch

from feed_assets.engine.class_archive import archive_options
from feed_assets.engine.session import QUICKLY


def use_quick_java() -> None:
    """Let Java compile quickly, and use the archive of classes that `feed-assets prepare` made, if it did."""
    with patch.dict(os.environ):  # finding a Java sets variables, which tests of that must not find
        options = f"{QUICKLY} {archive_options()}".rstrip()
    for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[variable] = options
    os.environ["SPARK_LAUNCHER_OPTS"] = QUICKLY  # of the small Java that finds out how to start the others
