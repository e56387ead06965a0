"""The event log folded again: to verify every document, to rebuild a view's, to see what a replay would change."""
