"""Structured log lines and Prometheus metrics, for the operators of the process.

It never blocks the event loop. Fed by `live.outcomes`, the engine and the other packages.
"""
