"""Work on chosen elements of a batch, and batched functions within `vmap`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers import num_turns
from unojax.device.batching import Agenda, for_chosen, look_up, put_rows, take_part, take_rows, together
from unojax.device.tracing import traced_once


def test_only_the_chosen_are_worked_on():
    @jax.jit
    def work_on(chosen: jax.Array) -> jax.Array:
        return for_chosen(chosen, 4, lambda is_real, x: jnp.where(is_real, 2 * x, -1), (jnp.arange(10),), jnp.full(10, 100))

    for number in (0, 1, 4, 7, 10):
        chosen = np.random.default_rng(number).permutation(np.arange(10) < number)
        np.testing.assert_array_equal(work_on(chosen), np.where(chosen, 2 * np.arange(10), 100))


def test_a_function_of_a_batch_gets_all_of_it_from_within_vmap():
    sizes, x = [], np.arange(5, dtype=np.float32)

    def work(shared: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        sizes.append(len(x))
        return shared + x * y

    of_one, one = together(work), np.float32(1)
    of_row = jax.vmap(of_one, (None, 0, None))
    assert jax.jit(of_one)(one, 2.0, 3.0) == 7
    np.testing.assert_array_equal(jax.jit(of_row)(one, x, 3.0), 1 + 3 * x)
    assert sizes[0] == 1 and sizes[-1] == 5
    np.testing.assert_array_equal(jax.jit(jax.vmap(of_row, (None, None, 0)))(one, x, x), 1 + x[:, None] * x)
    assert sizes[-1] == 25


def test_a_batch_may_be_empty() -> None:
    """`work` reads the first row, as a loop over games does, so it can't run on an empty batch."""
    of_row = jax.vmap(together(lambda shared, x: (shared + x * jnp.take(x, 0, axis=0), x > 0)), (None, 0))
    for shape in ((0,), (0, 3), (3, 0)):
        doubly = jax.vmap(of_row, (None, 0)) if len(shape) == 2 else of_row
        total, is_positive = jax.jit(doubly)(np.float32(1), np.zeros(shape, np.float32))
        assert (total.shape, total.dtype, is_positive.shape, is_positive.dtype) == (shape, np.float32, shape, bool)


def test_what_runs_row_by_row_is_traced_once() -> None:
    traced = []

    @traced_once
    def of_row(x: jax.Array) -> jax.Array:
        traced.append(x)
        return 2 * x

    doubled = jax.vmap(jax.jit(together(lambda shared, xs: jax.lax.map(of_row, xs))), (None, 0))
    np.testing.assert_array_equal(jax.jit(doubled)((), np.arange(6.0).reshape(2, 3)), 2 * np.arange(6.0).reshape(2, 3))
    assert len(traced) == 1


def test_shared_arguments_and_closures_may_differ():
    x, one = np.arange(5, dtype=np.float32), np.float32(1)

    def of_one(shared: jax.Array, closed: jax.Array, x: jax.Array) -> jax.Array:
        return together(lambda shared, x: shared + closed * x)(shared, x)

    np.testing.assert_array_equal(jax.jit(jax.vmap(of_one))(x, x, x), x + x * x)
    np.testing.assert_array_equal(jax.jit(jax.vmap(of_one, (None, 0, None)))(one, x, np.float32(3)), 1 + 3 * x)
    # The closure belongs to a program that is mapped as a whole, after it was traced.
    of_many = jax.vmap(jax.jit(lambda closed, x: jax.vmap(of_one, (None, None, 0))(one, closed, x)), (0, None))
    np.testing.assert_array_equal(of_many(x, x), 1 + x[:, None] * x)


def test_rows_of_tables_of_any_batch():
    table = np.random.default_rng(0).integers(0, 100, (4, 3, 5, 2))
    index = np.random.default_rng(1).integers(0, 7, (4, 3, 6))
    clipped = index.clip(max=4)
    expected = np.stack([[table[a, b, clipped[a, b]] for b in range(3)] for a in range(4)])
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(look_up)))(table, index), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(look_up, (None, 0)))(table[0, 0], index[0]), table[0, 0][clipped[0]])
    np.testing.assert_array_equal(jax.jit(jax.vmap(look_up, (0, None)))(table[0], index[0, 0]), table[0][:, clipped[0, 0]])
    part = jax.jit(take_part, static_argnums=2)(table[..., 0], np.array([2, 0, 9]), 2)
    np.testing.assert_array_equal(part, table[..., 0][[2, 0, 3], :2])


def test_an_agenda_does_each_round_once() -> None:
    """Three kinds of work: the rounds of each element in order, and the number of turns.

    The last rounds of one kind are in smaller chunks.
    """
    unfinished = 0
    for chunk in (1, 3, 8):
        rng = np.random.default_rng(chunk)
        due = {"first": rng.integers(0, 4, 8), "none": np.zeros(8, int), "second": rng.integers(0, 2, 8)}

        @jax.jit
        def work_through(due: dict[str, jax.Array], chunk: int = chunk) -> dict[str, list[tuple[jax.Array, jax.Array]]]:
            agenda, done = Agenda(due, 8), {}

            def work(index: jax.Array, at: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
                rounds, turns = state
                # Each round finds those before it done.
                return put_rows(rounds, at, jnp.where(take_rows(rounds, at) == index, index + 1, -1)), turns + 1

            nothing = jnp.zeros(8, jnp.int32), jnp.int32(0)
            for name in due:
                part = agenda.do(name, chunk, work, nothing, leave=2 if name == "first" else 0)
                done[name] = [part, agenda.do(name, 1, work, part)]
            return done

        for name, ((part, turns), (rounds, all_turns)) in work_through(due).items():
            np.testing.assert_array_equal(rounds, due[name])
            left, most = due[name].sum() - part.sum(), num_turns(due[name], chunk)
            assert left <= 2 and turns <= most if name == "first" else left == 0 and turns == most
            assert all_turns == turns + left
            unfinished += left
    assert unfinished > 0
