"""Work on chosen elements of a batch, and functions of batches from within `vmap`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.device.batching import Agenda, for_chosen, look_up, num_turns, put_rows, take_part, take_rows, together


@pytest.mark.parametrize("number", [0, 1, 4, 7, 10])
def test_only_the_chosen_are_worked_on(number: int):
    chosen = np.random.default_rng(number).permutation(np.arange(10) < number)

    @jax.jit
    def work_on(chosen: jax.Array) -> jax.Array:
        return for_chosen(chosen, 4, lambda is_real, x: jnp.where(is_real, 2 * x, -1), (jnp.arange(10),), jnp.full(10, 100))

    np.testing.assert_array_equal(work_on(chosen), np.where(chosen, 2 * np.arange(10), 100))


def test_a_function_of_a_batch_gets_all_of_it_from_within_vmap():
    sizes = []

    def work(shared: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        sizes.append(len(x))
        return shared + x * y

    of_one = together(work)
    x = jnp.arange(5.0)
    assert of_one(jnp.float32(1), 2.0, 3.0) == 7
    np.testing.assert_array_equal(jax.vmap(of_one, (None, 0, None))(jnp.float32(1), x, 3.0), 1 + 3 * x)
    assert sizes[0] == 1 and sizes[-1] == 5
    grid = jax.vmap(jax.vmap(of_one, (None, 0, None)), (None, None, 0))(jnp.float32(1), x, x)
    np.testing.assert_array_equal(grid, 1 + x[:, None] * x)
    assert sizes[-1] == 25


def test_what_a_function_of_a_batch_shares_may_differ():
    x = jnp.arange(5.0)

    def of_one(shared: jax.Array, closed: jax.Array, x: jax.Array) -> jax.Array:
        return together(lambda shared, x: shared + closed * x)(shared, x)

    np.testing.assert_array_equal(jax.vmap(of_one)(x, x, x), x + x * x)
    np.testing.assert_array_equal(jax.vmap(of_one, (None, 0, None))(jnp.float32(1), x, jnp.float32(3)), 1 + 3 * x)
    # The closure belongs to a program that is mapped as a whole, after it was traced.
    of_many = jax.vmap(jax.jit(lambda closed, x: jax.vmap(of_one, (None, None, 0))(jnp.float32(1), closed, x)), (0, None))
    np.testing.assert_array_equal(of_many(x, x), 1 + x[:, None] * x)


def test_rows_are_looked_up_in_tables_of_any_batch():
    table = np.random.default_rng(0).integers(0, 100, (4, 3, 5, 2))
    index = np.random.default_rng(1).integers(0, 7, (4, 3, 6))
    expected = np.stack([[table[a, b, index[a, b].clip(max=4)] for b in range(3)] for a in range(4)])
    np.testing.assert_array_equal(jax.vmap(jax.vmap(look_up))(table, index), expected)
    np.testing.assert_array_equal(jax.vmap(look_up, (None, 0))(table[0, 0], index[0]), table[0, 0][index[0].clip(max=4)])
    np.testing.assert_array_equal(jax.vmap(look_up, (0, None))(table[0], index[0, 0]), table[0][:, index[0, 0].clip(max=4)])


def test_the_first_part_of_rows():
    rows = np.arange(24).reshape(4, 3, 2)
    np.testing.assert_array_equal(take_part(jnp.asarray(rows), jnp.array([2, 0, 9]), 2), rows[[2, 0, 3], :2])


@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_an_agenda_does_each_round_once(chunk: int) -> None:
    """Two kinds of work: which rounds each element had, in order, and how many turns that took."""
    rng = np.random.default_rng(chunk)
    due = {"first": rng.integers(0, 4, 8), "none": np.zeros(8, int), "second": rng.integers(0, 2, 8)}

    @jax.jit
    def work_through(due: dict[str, jax.Array]) -> dict[str, tuple[jax.Array, jax.Array]]:
        agenda, done = Agenda(due, 8), {}

        def work(index: jax.Array, at: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            rounds, turns = state
            # Each round finds those before it done.
            return put_rows(rounds, at, jnp.where(take_rows(rounds, at) == index, index + 1, -1)), turns + 1

        for name in due:
            done[name] = agenda.do(name, chunk, work, (jnp.zeros(8, jnp.int32), jnp.int32(0)))
        return done

    for name, (rounds, turns) in work_through(due).items():
        np.testing.assert_array_equal(rounds, due[name])
        assert int(turns) == num_turns(due[name], chunk)
