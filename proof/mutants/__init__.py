"""Planted bugs, in `patches/`, and what catches them. `run.py` tries each."""
