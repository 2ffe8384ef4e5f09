"""What good data is: expectations over an update, and what it takes to judge them.

Here: rules, the update under audit, counting for them. Not here: publishing or rejecting (`steps`), Dagster (`checks`).
"""
