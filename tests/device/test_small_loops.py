"""Small loops of a CPU's programs as one kernel each."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.device.small_loops import build_small_loops_whole


def test_a_small_loop_is_one_kernel_and_a_large_one_is_not() -> None:
    """Arrays of 16 kB and 8 MB; without the option neither is."""

    def kernels(number: int) -> str:
        def turn(_: int, x: jax.Array) -> jax.Array:
            return jnp.sin(x[::-1]) + jnp.roll(x, 1)

        shape = jax.ShapeDtypeStruct((number,), np.float32)
        return jax.jit(lambda x: jax.lax.fori_loop(0, 10, turn, x)).lower(shape).compile().as_text()

    assert "xla_cpu_small_call" in kernels(4096)
    assert "xla_cpu_small_call" not in kernels(2_000_000)


def test_flags_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    set_already = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=7"
    for before, start in (
        ("--xla_cpu_enable_fast_math=false", "--xla_cpu_enable_fast_math=false --xla_backend_extra_options=xla_cpu_small"),
        (set_already, set_already),
        # Names of files of flags.
        ("flags.txt", "flags.txt"),
        (" /home/user/flags", " /home/user/flags"),
    ):
        monkeypatch.setenv("XLA_FLAGS", before)
        build_small_loops_whole()
        flags = os.environ["XLA_FLAGS"]
        assert flags.startswith(start) and (start != before or flags == before)
        build_small_loops_whole()
        assert os.environ["XLA_FLAGS"] == flags


def test_import_sets_the_option_after_an_import_of_jax() -> None:
    """In a new process without `XLA_FLAGS`."""
    program = """
import jax
import unojax
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, x: jax.numpy.sin(x[::-1]), x))
print("xla_cpu_small_call" in loop.lower(jax.ShapeDtypeStruct((4096,), "float32")).compile().as_text())
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"
