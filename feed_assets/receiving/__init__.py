"""Events that partners push, and files that are fetched from partners. No Dagster.

Here: validation at the door (`door`), the journal that makes events durable (`journal`, `disk_journal`,
`blackboard_journal`), the thread that writes it (`committing`), landing its segments (`landing_segments`, in a process
of its own, which `keeping` supervises), tokens (`access`) and HTTP (`server`). For files: polls (`polling`), the places
of partners (`places`), and the index of files that were taken (`taken`, `dynamodb`). Not here: how files land
(`sources.landing`), schedules, and commands (`cli.receive`, `cli.poll`).
"""
