"""Live data of the running service: published outcomes, the last half hour, and streams to open pages.

Owns `outcomes` (the only publisher), samples, counts, alert states and readiness. It never delays a message: a
subscriber that cannot keep up loses data. Called by `service`; read by `http`.
"""
