"""`millpond doctor`: examines settings, store, ids, clock, disk and subscriptions, and advises what to do.

Each module checks one subject and returns findings. Never changes what it examines. Called by the CLI.
"""
