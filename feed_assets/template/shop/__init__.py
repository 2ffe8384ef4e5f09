"""Pipelines on feed_assets: orders and refunds of each day, and the revenue of each product.

Read `sources/` first (the partners' logs), then `kinds` (columns), `transforms` (rules for records), `expectations`
(rules for updates) and `definitions` (assets). `sample` writes deliveries to try the project.
"""
