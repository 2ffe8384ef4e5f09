"""The demo: the main job on real logs, with late and with broken data, told as it happens.

Here: the story and its deliveries. Not here: anything the product needs; all of it is called as a user would call it.
"""
