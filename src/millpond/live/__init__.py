"""What happens now, for people: outcomes as they are published, the last half hour, and streams to open pages.

Owns `outcomes` (the one publisher), samples, totals, alert states and readiness. Never slows a message down: a
subscriber that cannot keep up loses what it missed. Called by `service`; read by `http`.
"""
