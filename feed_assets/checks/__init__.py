"""What good data is, and the audit that publishes it or turns it away.

Here: expectations and the checks made of them. Not here: how data is made.
"""

from feed_assets.checks.audit import Limits, audit
from feed_assets.checks.expectations import Expectation, for_clean, for_effectiveness

__all__ = ["Expectation", "Limits", "audit", "for_clean", "for_effectiveness"]
