"""What is complete and good, and what may therefore start. No Dagster, no Spark.

Here: which slots of which datasets are complete, at which revision, and why not (`service`). Everything that decides is
pure: the rule for one base slot (`completeness`), and the states of a dataset's slots (`slot_states`). Not here: what
slots exist (`datasets`), and runs (`starts`).
"""
