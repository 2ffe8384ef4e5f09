"""What a token may do with a workflow. Not here: whose a request is (`serving.access`)."""

from typing import Final

WORK: Final = "work"
"""Sessions, leases and what follows, inserts, reads: what workers need."""
CONTROL: Final = "control"
"""All that workers may do, and configurations and orders: what people need."""
