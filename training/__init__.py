"""Programs that fit the numbers of policies and networks."""
