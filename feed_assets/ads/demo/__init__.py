"""The demo: the main job on real logs, with late and with broken data, step by step.

Here: the story and its deliveries. Not here: anything the product needs. A user gives the same tasks to commands and the
daemon; the demo runs their inside in its own process, within a minute.
"""
