"""Plain hosts over SSH: an agent a host, for as long as the connection lives."""
