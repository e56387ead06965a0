"""CHART_EXPORT: a step module that draws candles from stored bars, written on the public API as a user would.

Owns chart requests, bars, layout, drawing and files. Never imports `flow` or a store: a step's context gives it
both. Loaded by name, as a module in STEPS would be.
"""
