"""The event log read again: why a document is what it is, verify, rebuild, preview, and moving old ids.

Folds events with the same `plan` the engine uses. Never lowers or removes what the log did not decide.
Called by the API, the CLI and the demo.
"""
