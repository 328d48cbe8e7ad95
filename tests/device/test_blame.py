"""Whoever fails is named; what the machine lacks is nobody's fault."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.device.blame import blamed_on


class ChoiceError(Exception):
    """What a caller tells failures as."""


def test_a_failure_is_told_with_a_name():
    with (
        pytest.raises(ChoiceError, match=r"^agent mine failed: KeyError: 'no such card'$") as told,
        blamed_on("agent mine", ChoiceError),
    ):
        {}["no such card"]
    assert isinstance(told.value.__cause__, KeyError)
    with blamed_on("agent mine"):
        pass


@pytest.mark.parametrize("kind", [MemoryError, jax.errors.JaxRuntimeError, KeyboardInterrupt, ChoiceError])
def test_the_machines_errors_and_those_that_pass_stay(kind: type[BaseException]):
    with pytest.raises(kind, match=r"^out of it$"), blamed_on("agent mine", passing=(ChoiceError,)):
        raise kind("out of it")


def test_a_program_on_the_host_that_a_device_calls_is_no_machine():
    def fails(x: np.ndarray) -> np.ndarray:
        raise LookupError("no such row")

    with pytest.raises(ValueError, match=r"^agent mine failed: JaxRuntimeError: ") as told, blamed_on("agent mine"):
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fails, x, x))(jnp.zeros(3)))
    assert "LookupError: no such row" in str(told.value)


def test_it_needs_no_jax():
    program = """
import sys
from unojax.device.blame import blamed_on
try:
    with blamed_on("mine"):
        1 / 0
except ValueError as error:
    assert str(error) == "mine failed: ZeroDivisionError: division by zero"
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
