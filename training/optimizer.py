"""The optimizer of every training."""

from __future__ import annotations

from dataclasses import dataclass

import optax

from training.checks import check_options, is_not_negative, is_share


@dataclass(frozen=True)
class Optimizer:
    """AdamW with a warm-up and a cosine decay of the learning rate.

    Attributes:
        learning_rate: the highest.
        warmup: share of all updates in which it rises, at least one of them and at most all but the last.
        final: share of the highest that is left at the end.
        weight_decay: of AdamW (Loshchilov and Hutter 2019).
        clip: the gradient's norm is at most this.
        average: decay, per update, of the running average of the parameters that is played with and shipped.
    """

    learning_rate: float = 2e-3
    warmup: float = 0.02
    final: float = 0.02
    weight_decay: float = 1e-4
    clip: float = 1.0
    average: float = 0.99

    def __post_init__(self) -> None:
        check_options(self, "optimizer.", "learning_rate clip", lambda number: number > 0, "must be greater than 0")
        check_options(self, "optimizer.", "warmup average", lambda share: 0 <= share < 1, "must be in [0, 1)")
        check_options(self, "optimizer.", "final", is_share, "must be in [0, 1]")
        check_options(self, "optimizer.", "weight_decay", is_not_negative, "can't be negative")

    def make(self, num_updates: int) -> optax.GradientTransformation:
        """Make the transformation of gradients for so many updates in all."""
        schedule = optax.warmup_cosine_decay_schedule(
            0.0,
            self.learning_rate,
            warmup_steps=min(max(1, round(self.warmup * num_updates)), num_updates - 1),
            decay_steps=num_updates,
            end_value=self.final * self.learning_rate,
        )
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adamw(schedule, weight_decay=self.weight_decay))
