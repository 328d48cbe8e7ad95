"""Device utilities, independent of cards."""
