"""The demo: a made-up market feed with faults, built on the simulation's facts, and a demo step.

Called by `millpond demo`.
"""
