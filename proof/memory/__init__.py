"""A server under attack, and what its memory does. `attacks.py` are the attacks, `run.py` measures."""
