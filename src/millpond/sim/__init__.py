"""The simulation: worlds of a broker, a store, instances and operators on a virtual clock, drawn from a seed.

Runs the real engine and the real views, and checks every promise of docs/guarantees.md. Never reads the real clock.
Called by `millpond simulate`, `proof` and the demo feed.
"""
