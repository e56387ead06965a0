"""The sources of messages: push, streaming pull, files, a dead-letter subscription, and CloudEvents for flow runs.

Each turns what arrived into a `Delivery` (or a flow event), and answers its sender by the outcome. Push tokens are
verified here. Never reads a message's payload: `core` does. Called by `http`, the CLI and `functions`.
"""
