"""`millpond simulate`: the real engine, views and flow claims in a world of faults, decided by one seed."""
