"""Programs that fit the parameters of policies and networks."""
