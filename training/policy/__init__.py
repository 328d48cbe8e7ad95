"""Training of a policy network by self-play."""
