"""The demo: the main job on real logs, with late and with broken data, step by step.

Here: the story and its deliveries. Not here: anything the product needs. The demo calls the product as a user does.
"""
