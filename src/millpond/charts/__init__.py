"""CHART_EXPORT: a step module that draws candles from stored bars, written on the public API as a user would.

Owns chart requests, bars, layout, drawing and files. Imports nothing else of Millpond: the step's context gives it
documents and settings. Loaded by name, by the code that loads the modules in STEPS.
"""

from millpond.charts.step import chart_export

__all__ = ["chart_export"]
