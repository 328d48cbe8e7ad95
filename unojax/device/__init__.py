"""Devices, apart from cards: the platform, work on parts of batches, random bits, numbers apart from structure."""
