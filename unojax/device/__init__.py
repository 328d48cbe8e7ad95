"""Device utilities, independent of cards: platform, parts of batches, random bits, static structure, attribution of errors."""
