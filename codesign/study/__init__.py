"""The durable record of a search, the loop that fills it, and its files."""
