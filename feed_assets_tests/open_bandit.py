"""What is known of the real log, a week of the Open Bandit Dataset, before anything of this project has read it."""

from __future__ import annotations

TOTALS = {
    "2019-11-24": (4953, 28),
    "2019-11-25": (3536, 25),
    "2019-11-26": (3967, 26),
    "2019-11-27": (4665, 16),
    "2019-11-28": (4734, 19),
    "2019-11-29": (4213, 20),
    "2019-11-30": (3932, 23),
}
"""Day -> impressions and clicks."""
