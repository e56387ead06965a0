"""Where the parts become a running service: settings are turned into rules, and store, views and engine are joined.

The only package that knows all others. Called by the server, and by commands that work on a store directly.
"""
