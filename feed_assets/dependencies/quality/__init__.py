"""What is bad, and why: marks, what was computed from what, checks, profiles and backfills.

Here: facts about quality of slots, and their rows and events. Not here: what is complete (the room above).
"""
