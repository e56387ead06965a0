"""The memory of a server under attack. `attacks.py` has the attacks, `run.py` measures."""
