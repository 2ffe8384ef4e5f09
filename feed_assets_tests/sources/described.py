"""The description of a partner whose records have an id, a time and an ad. Not here: files."""

SIMPLE = """\
name: partner
kind: ads
MORE
format: {FORMAT}
null_tokens: ["", "null", "Na"]
columns:
  event_time: to_timestamp(time)
  ad_id: ad
identity: [id]
growth_threshold_percent: 5
lookback_days: 7
"""


def simple(text: str = "type: csv, header: true, columns: [id, time, ad]", more: str = "") -> str:
    """The YAML of this partner, whose files have this format."""
    return SIMPLE.replace("FORMAT", text).replace("MORE", more or "description: made up")
