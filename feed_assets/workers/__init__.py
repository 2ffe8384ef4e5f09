"""What workers of workflows need of a project: its tables on Spark, its feeds and their audits.

Here: making a worker for a project (`assembly`), and publishing what stages return (`publisher`). Not here: workflows
themselves, which know neither Dagster nor Spark (`workflow`).
"""
