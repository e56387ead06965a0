"""Mutated requests against a real server. `command.py` is the command; `run.py` sends and checks."""
