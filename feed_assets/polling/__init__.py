"""Files that are fetched from partners: their places are listed, and what is new there lands.

Here: a poll (`poller`), the places of partners (`port`, `places`, `sftp_place`, `http_place`), the index of files that
were taken (`taken`, `dynamodb`). Not here: how files land (`sources.landing`), schedules, and the command (`cli.poll`).
No Dagster.
"""
