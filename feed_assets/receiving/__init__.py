"""Events that partners push over HTTP. No Dagster.

Here: validation at the door (`door`), the journal that makes events durable (`journal`, `disk_journal`,
`blackboard_journal`), the thread that writes it (`committing`), landing its segments (`landing_segments`, in a process
of its own, which `keeping` supervises), tokens (`access`) and HTTP (`server`). Not here: files (`polling`), how they
land (`sources.landing`), and the command (`cli.receive`).
"""
