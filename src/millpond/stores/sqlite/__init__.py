"""The embedded store: one SQLite file, one writer, one fsync for each commit.

Owns the schema and its migrations, rows, the event log's table, the lock file, and backups.
Opened by `service.stores`; `doctor` looks into the file directly.
"""
