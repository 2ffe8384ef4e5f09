"""The demo: the main job on real logs, with late and with broken data, step by step.

Here: the story and its deliveries. Not here: anything the product needs. A user calls commands and lets the daemon run.
The demo calls the modules behind them, in one process.
"""
