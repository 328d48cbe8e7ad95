"""Programs compiled ahead: once for each kind of arguments, however many threads ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers import assert_trees_equal
from unojax import Info, Rules
from unojax.device.platform import tuned_for
from unojax.device.programs import Program

KEY = jax.random.key(5)
RULES = Rules(hand_size=3)
WEIGHTS = {"a": jnp.float32(2), "b": np.arange(4)}


class Counted:
    """A function of arrays, and how often it was traced."""

    def __init__(self):
        self.times = 0

        def draw(key, weights, *, rules):
            self.times += 1
            seen = jax.random.uniform(key, (rules.hand_size,)) * weights["a"]
            return {"sum": seen.sum(), "info": Info(*seen[:3], *weights["b"])}, (None, jax.random.key_data(key))

        self.program = Program(draw, static="rules")
        self.plain = jax.jit(draw, static_argnames="rules")


def test_a_program_gives_what_its_function_gives():
    counted = Counted()
    for key, rules in ((KEY, RULES), (jax.random.key(6), RULES), (KEY, Rules(hand_size=4))):
        assert_trees_equal(counted.program(key, WEIGHTS, rules=rules), counted.plain(key, WEIGHTS, rules=rules))


def test_each_kind_of_arguments_is_compiled_once():
    counted = Counted()

    def run(**changes):
        before, given = counted.times, {"weights": WEIGHTS, "rules": RULES} | changes
        counted.program(KEY, given["weights"], rules=given["rules"])
        return counted.times - before

    assert run() == 1
    assert run() == 0
    assert run(rules=Rules(hand_size=4)) == 1
    assert run(weights=WEIGHTS | {"b": np.arange(4, dtype=np.int16)}) == 1
    assert run(weights=WEIGHTS | {"c": jnp.float32(1)}) == 1
    assert run() == 0


def test_a_program_that_was_compiled_ahead_is_not_traced_again():
    counted = Counted()
    shapes = jax.eval_shape(lambda: (KEY, WEIGHTS))
    counted.program.compile(*shapes, rules=RULES)
    assert counted.times == 1
    with jax.no_tracing():
        counted.program(KEY, WEIGHTS, rules=RULES)


def test_threads_wait_for_a_program_that_is_being_compiled():
    counted = Counted()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: counted.program(KEY, WEIGHTS, rules=RULES), range(4)))
    assert counted.times == 1
    for other in found[1:]:
        assert_trees_equal(other, found[0])


def test_what_comes_back_is_told_ahead():
    counted = Counted()
    told = counted.program.shapes(KEY, WEIGHTS, rules=RULES)
    found = counted.program(KEY, WEIGHTS, rules=RULES)
    assert jax.tree.structure(told) == jax.tree.structure(found)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(told)] == [(x.shape, x.dtype) for x in jax.tree.leaves(found)]


def test_another_form_is_another_program():
    """Last, since it has programs forgotten: what sizes and loops are chosen for shows in a program."""
    counted = Counted()
    counted.program(KEY, WEIGHTS, rules=RULES)
    with tuned_for("gpu"):
        counted.program(KEY, WEIGHTS, rules=RULES)
    assert counted.times == 2
