"""Names in Spark's SQL.

Here: quoting. Not here: expressions of sources (`sources.expressions`), and rules (`quality`).
"""


def quoted(column: str) -> str:
    """A column's name as Spark's SQL takes it, with any characters."""
    return f"`{column.replace('`', '``')}`"
