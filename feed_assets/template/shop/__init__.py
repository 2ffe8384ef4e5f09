"""Pipelines on feed_assets: orders and refunds of every day, and what each product brought in.

Here: a project to start from. `definitions` says what there is, `kinds` has the columns, `transforms` the rules,
`expectations` what good data is, `sources/` how the partners' logs look, `sample` deliveries to try it with.
"""
