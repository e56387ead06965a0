"""Structured log lines and Prometheus metrics: how the process reports to whoever operates it.

Writing never blocks the event loop. Fed by `live.outcomes` and by anything that has something to report.
"""
