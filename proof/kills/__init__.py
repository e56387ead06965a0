"""Whole servers killed under load. `run.py` does it; `check.py` says what must hold."""
