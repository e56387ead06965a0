"""The flow-run worker: each step of a run is claimed once, worked on under a lease, and finished once.

Owns runs, claims, leases, users' steps, submitting and sweeping. Has no steps of its own: it is given the modules
that define them. Called by `service`, `functions` and the CLI.
"""
