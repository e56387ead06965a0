"""The ways in: push, streaming pull, files, a dead-letter subscription, and CloudEvents for flow runs.

Each turns what arrived into a `Delivery` (or a flow event) and answers its sender by the outcome; push tokens are
verified here. Never looks into a payload: that is `core`. Called by `http`, the CLI and `functions`.
"""
