"""What a day costs on a store with a bill: operations from the history, sizes from samples, prices as a setting.

`http` and `cli` ask `examine`. It reads little, says how much, and never writes.
"""
