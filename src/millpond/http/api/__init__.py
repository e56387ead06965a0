"""The HTTP API for people and programs, one module for each group of paths. Called by the table of `http.app`.

A module reads its parameters, calls `service`, and answers with JSON. It never depends on a kind of store.
"""
