"""The store on Firestore: reads, conditional commits, the event log, listings and counts.

The only place that knows Firestore's values, names, deadlines and status codes.
Opened by `service.stores`, and only if STORE=firestore: Google's libraries take a second to load.
"""
