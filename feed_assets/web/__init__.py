"""Pages for people, and the service that answers them together with the API of data dependencies.

Here: the routes of pages (`pages`), running the service (`running`), the APIs of workflows (`workflow_operations`) and
of runs (`run_operations`), and what a browser loads (`static`), which has no build step and asks no other server. Not
here: the answers about data dependencies, which are the API's (`dependencies.http.operations`).
"""
