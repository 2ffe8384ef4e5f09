"""Rules that judge records, expectations over an update, and the counts that decide them.

Not here: publishing or rejecting (`steps`), and Dagster (`checks`, with the expectations for a project's audits).
"""
