"""Implementations of the store port (`core.ports`): SQLite, Firestore and memory; and their health.

One contract suite holds for all of them. A store never decides which event wins, and never retries: the engine
does both for events, and `update` for all other writes.
Opened by `service`; all other packages use stores through the port.
"""
