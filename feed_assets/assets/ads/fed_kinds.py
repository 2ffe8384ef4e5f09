"""Which assets an installation has: those that its sources can feed.

Here: the rule, and the sentence that tells people what is left out. Not here: the assets, or the definitions.
A day of clicks that nobody sends is not an empty day but an unknown one. So an asset exists only where there is a
source for it, and effectiveness only where there are both ads and clicks.
"""

from collections.abc import Iterable, Sequence

from feed_assets.ads import KINDS
from feed_assets.sources import Kind, Source


def fed_kinds(sources: Sequence[Source], kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Those of the kinds that at least one source sends."""
    sent = {source.kind for source in sources}
    return tuple(kind for kind in kinds if kind.name in sent)


def left_out(sources: Sequence[Source]) -> str:
    """Which assets do not exist for want of a source, and what to do, in a sentence or two; empty if all exist."""
    fed = fed_kinds(sources, KINDS)
    missing = [kind.name for kind in KINDS if kind not in fed]
    if not missing:
        return ""
    names = [f"clean_{kind}" for kind in missing] + ["ad_effectiveness"]
    return (
        f"No source sends {' or '.join(missing)}, so there is no {' and no '.join(names)}. "
        "Describe such a source in a YAML file in the directory of sources (FEED_ASSETS_SOURCES) to get them."
    )
