"""The demo: a made-up market feed with mishaps, built on the simulation's facts, and a step to go with it.

Called by `millpond demo`.
"""
