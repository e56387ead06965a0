"""`millpond doctor`: examines settings, store, ids, clock, disk and subscriptions, and says what to do.

Each module checks one thing and returns findings. Changes nothing. Called by the CLI.
"""
