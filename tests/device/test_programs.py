"""Programs compiled ahead: once for each kind of arguments, even with many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Info, Rules
from unojax.device.platform import tuned_for
from unojax.device.programs import Program

KEY = jax.random.key(5)
RULES = Rules(hand_size=3)
WEIGHTS = {"a": np.float32(2), "b": np.arange(4)}


class Counted:
    """A function of arrays that counts its traces."""

    def __init__(self, *, is_light: bool = False):
        self.times = 0

        def draw(key, weights, *, rules):
            self.times += 1
            seen = jax.random.uniform(key, (rules.hand_size,)) * weights["a"]
            return {"sum": seen.sum(), "info": Info(*seen[:3], *weights["b"])}, (None, jax.random.key_data(key))

        self.program = Program(draw, static="rules", is_light=is_light)
        self.plain = jax.jit(draw, static_argnames="rules")


def test_each_kind_of_arguments_is_compiled_once_and_gives_what_the_function_gives():
    counted, other = Counted(), Counted()

    def traces(key=KEY, weights=WEIGHTS, rules=RULES) -> int:
        before = counted.times
        assert_trees_equal(counted.program(key, weights, rules=rules), other.plain(key, weights, rules=rules))
        return counted.times - before

    assert [traces(), traces(), traces(jax.random.key(6))] == [1, 0, 0]
    assert traces(rules=Rules(hand_size=4)) == 1
    assert traces(weights=WEIGHTS | {"b": np.arange(4, dtype=np.int16)}) == 1
    assert traces(weights=WEIGHTS | {"c": np.float32(1)}) == 1
    assert traces() == 0
    # The form for another platform is another program.
    with tuned_for("gpu"):
        assert traces() == 1


def test_a_program_may_have_no_static_argument():
    program = Program(lambda x, y: x + y, is_light=True)
    program.compile(np.int32(0), np.int32(0))
    with jax.no_tracing():
        assert int(program(np.int32(2), np.int32(3))) == 5


def test_a_program_is_compiled_ahead_with_the_shapes_of_its_results():
    counted = Counted()
    counted.program.compile(*jax.eval_shape(lambda: (KEY, WEIGHTS)), rules=RULES)
    assert counted.times == 1
    with jax.no_tracing():
        results = counted.program(KEY, WEIGHTS, rules=RULES)
    shapes = counted.program.shapes(KEY, WEIGHTS, rules=RULES)
    assert jax.tree.structure(shapes) == jax.tree.structure(results)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(shapes)] == [(x.shape, x.dtype) for x in jax.tree.leaves(results)]


def test_numpy_arrays_go_into_a_program_as_they_are(monkeypatch: pytest.MonkeyPatch):
    """One by one, their copies take longer than a small program."""
    counted = Counted()
    expected = counted.program(KEY, WEIGHTS, rules=RULES)
    monkeypatch.setattr(jax, "device_put", None)
    narrow = {"a": np.float32(2), "b": np.arange(4, dtype=np.int32)}
    assert_trees_equal(counted.program(KEY, narrow, rules=RULES), expected)
    with pytest.raises(TypeError, match="not callable"):
        counted.program(KEY, WEIGHTS, rules=RULES)


def test_threads_wait_for_a_program_that_is_being_compiled():
    counted = Counted()
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: counted.program(KEY, WEIGHTS, rules=RULES), range(4))
    assert counted.times == 1
    for other in others:
        assert_trees_equal(other, first)


def test_a_light_program_gives_the_same_results():
    light, full = Counted(is_light=True), Counted()
    assert_trees_equal(light.program(KEY, WEIGHTS, rules=RULES), full.program(KEY, WEIGHTS, rules=RULES))


def test_threads_compile_different_programs_at_the_same_time():
    """Each waits, while it is traced, until the other one is traced too."""
    meeting = Barrier(2, timeout=60)

    def meet(x, *, rules):
        meeting.wait()
        return x + rules.hand_size

    program = Program(meet, static="rules")
    with ThreadPoolExecutor(2) as pool:
        assert [int(y) for y in pool.map(lambda size: program(1, rules=Rules(hand_size=size)), (3, 4))] == [4, 5]
