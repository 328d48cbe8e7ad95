"""What has to do with devices and not with cards: the platform, work on parts of batches, random bits, numbers apart from structure."""
