"""Deciding by search over a belief: rollouts, flat Monte Carlo, a tree over what the player sees, and both as agents."""
