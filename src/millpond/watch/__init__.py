"""Looking on: what the service did lately, and those who watch it do so. Nothing here decides about a message."""
