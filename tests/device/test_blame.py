"""Failures name the function at fault, except if the machine lacks resources.

`tests/cli/test_cli_main.py` checks that this needs no JAX.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from unojax.device.blame import blamed_on


class ChoiceError(Exception):
    """The caller's own error."""


def test_a_failure_has_a_name():
    with (
        pytest.raises(ChoiceError, match=r"^agent mine failed: KeyError: 'no such card'$") as failure,
        blamed_on("agent mine", ChoiceError),
    ):
        {}["no such card"]
    assert isinstance(failure.value.__cause__, KeyError)
    with blamed_on("agent mine"):
        pass


def test_errors_of_the_machine_and_exempt_ones_stay():
    for kind in (MemoryError, jax.errors.JaxRuntimeError, KeyboardInterrupt, ChoiceError):
        with pytest.raises(kind, match=r"^out of it$"), blamed_on("agent mine", passing=(ChoiceError,)):
            raise kind("out of it")


def test_a_program_on_the_host_that_a_device_calls_is_no_machine():
    def fails(x: np.ndarray) -> np.ndarray:
        raise LookupError("no such row")

    with pytest.raises(ValueError, match=r"^agent mine failed: JaxRuntimeError: ") as failure, blamed_on("agent mine"):
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fails, x, x))(np.zeros(3, np.float32)))
    assert "LookupError: no such row" in str(failure.value)
