"""Training of a value network by self-play."""
