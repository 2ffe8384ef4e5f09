"""Which assets an installation has: those that its sources can feed.

If no source sends clicks, the clicks of a day are not empty but unknown. So a clean asset exists only if it has a
source, and effectiveness exists only with sources of both ads and clicks.
"""

from collections.abc import Iterable, Sequence

import feed_assets as fa
from feed_assets.ads.schemas import KINDS


def fed_kinds(sources: Sequence[fa.Source], kinds: Iterable[fa.Kind]) -> tuple[fa.Kind, ...]:
    """The kinds that at least one source sends."""
    sent = {source.kind for source in sources}
    return tuple(kind for kind in kinds if kind.name in sent)


def left_out(sources: Sequence[fa.Source]) -> str:
    """A message: which assets have no source and do not exist, and what to do; empty if all exist."""
    fed = fed_kinds(sources, KINDS)
    missing = [kind.name for kind in KINDS if kind not in fed]
    if not missing:
        return ""
    names = [f"clean_{kind}" for kind in missing] + ["ad_effectiveness"]
    return (
        f"No source sends {' or '.join(missing)}, so there is no {' and no '.join(names)}. "
        "Describe such a source in a YAML file in the directory of sources (FEED_ASSETS_SOURCES) to get them."
    )
