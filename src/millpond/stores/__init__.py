"""Implementations of the store port (`core.ports`): SQLite, Firestore and memory; and their health.

One contract suite holds for all of them. A store never decides who wins, and never retries: the engine
does, and `update` for everything that is not an event.
Opened by `service`; used through the port by everything else.
"""
