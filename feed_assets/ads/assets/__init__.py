"""The assets of the worked example: clean ads, clean clicks, ad effectiveness, and the catalog that others publish.

Here: their wiring, metadata, owners and descriptions. Not here: business rules (`feed_assets.ads`), and the parts that
assets of any kind share (`feed_assets.assets`).
"""
