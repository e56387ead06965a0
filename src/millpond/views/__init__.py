"""The built-in views: service health, pipelines, ticks, bars and trade signals.

Ordinary users of the public API: they import `millpond` and each other, and are given values, never settings.
Built by `service.views`.
"""
