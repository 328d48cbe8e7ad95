"""Devices, apart from cards: the platform, parts of batches, random bits, numbers apart from structure, whose error it is."""
