"""The agents that specs can name, registered by `import unojax`, imported by first use."""

from __future__ import annotations

from unojax.specs import Factory, register


def _mc() -> Factory:
    from unojax.search.agents import monte_carlo

    return monte_carlo


def _policy() -> Factory:
    from unojax.value.agent import policy

    return policy


def _process() -> Factory:
    from unojax.adapters.process import process

    return process


def _rlcard() -> Factory:
    from unojax.adapters.rlcard import agent

    return agent


def _tree() -> Factory:
    from unojax.search.agents import tree

    return tree


def _value() -> Factory:
    from unojax.value.agent import value

    return value


register("mc", _mc)
register("policy", _policy)
register("process", _process)
register("rlcard", _rlcard)
register("tree", _tree)
register("value", _value)
