"""`millpond demo`: a made-up world of services and markets, the mishaps of its delivery, and a live check."""
