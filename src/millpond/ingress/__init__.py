"""How deliveries come in."""
