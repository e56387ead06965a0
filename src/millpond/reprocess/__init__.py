"""Reads the event log again: explains a message, verifies and rebuilds documents, previews replays, moves old ids.

Folds events with the same `plan` as the engine. Never lowers or removes a document that the log did not decide.
Called by the API, the CLI and the demo.
"""
