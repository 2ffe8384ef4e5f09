"""The HTTP API, below `/v1/dependencies`.

Here: operations, their parameters, answers and grants. Not here: what every service has (`serving`), and pages (`web`).
"""
