"""The flow-run worker: each step of a run is claimed once, worked on under a lease, and finished once.

Owns runs, claims, leases, users' steps, submitting and sweeping. Knows no step of its own: charts are a step
module like any other. Called by `service`, `functions` and the CLI.
"""
