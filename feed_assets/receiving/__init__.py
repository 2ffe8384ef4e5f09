"""Events that partners push over HTTP. No Dagster.

Here: validation at the door (`door`), what the journal keeps of a request (`entries`), making it durable
(`committing`), landing the journal's segments (`landing_segments`, in a process of its own, which `keeping`
supervises), which record is which request's (`receipts`, `resubmission`), what a partner sees of its records
(`tallies`, `status`), and what the HTTP API does (`server`). Not here: journals (`journal`), what every HTTP service
has (`serving`), files (`polling`), how they land (`sources.landing`), and the command (`cli.receive`).
"""
