"""Builds the running service from settings: rules, store, views, steps, engine and live data.

The only package that imports all others. Called by the server, and by commands that use a store directly.
"""
