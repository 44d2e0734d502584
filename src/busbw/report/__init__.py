"""Results to what people and programs read."""
