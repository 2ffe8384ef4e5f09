"""Writes the generated pages of `docs/reference`; with `--check`, says which pages are stale or missing in `nav`.

Run `python -m feed_assets_tests.reference` after a change of an export, a command, a field of a source, a
setting, or of their docstrings.
"""

from __future__ import annotations

import sys

from feed_assets_tests.reference.pages import problems, write

if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(problems()) or 0)
    write()
