"""The pure core: what an event means and what each document becomes. Snapshots in, writes and outcomes out.

Owns the model, the total order, views, routing, receipts, `plan`, and the ports that stores implement.
Never does I/O, reads a clock, or imports anything but itself, the standard library and msgspec.
Everything else in Millpond calls it.
"""
