"""Counting what compiled programs do: on a crafted program, and on programs that were compiled here."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from benchmarks import gpu_count, hlo, kernels
from benchmarks.gpu_count import LAUNCH_SECONDS, LOOK_SECONDS, count
from benchmarks.gpu_target import H100, Target

SLOW = Target("slow", bandwidth=1e3, integer_rate=1e3, threads_to_fill=1, link_bandwidth=1.0)

CRAFTED = """HloModule crafted, is_scheduled=true

%fused_row (table: u8[64,256], row: s32[], new: u8[1,256]) -> u8[64,256] {
  %table = u8[64,256]{1,0} parameter(0)
  %new = u8[1,256]{1,0} parameter(2)
  %row = s32[] parameter(1)
  %zero = s32[] constant(0)
  %twice = u8[1,256]{1,0} add(%new, %new)
  ROOT %put = u8[64,256]{1,0} dynamic-update-slice(%table, %twice, %row, %zero)
}

%fused_count (words: u32[1024]) -> (u32[1024], f32[1024]) {
  %words = u32[1024]{0} parameter(0)
  %bits = u32[1024]{0} popcnt(%words)
  %float = f32[1024]{0} convert(%bits)
  ROOT %both = (u32[1024]{0}, f32[1024]{0}) tuple(%bits, %float)
}

%body (carry: (s32[], u8[64,256], u8[1,256])) -> (s32[], u8[64,256], u8[1,256]) {
  %carry = (s32[], u8[64,256]{1,0}, u8[1,256]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%carry), index=0
  %rows = u8[64,256]{1,0} get-tuple-element(%carry), index=1
  %one = u8[1,256]{1,0} get-tuple-element(%carry), index=2
  %fusion.1 = u8[64,256]{1,0} fusion(%rows, %i, %one), kind=kLoop, calls=%fused_row
  ROOT %next = (s32[], u8[64,256]{1,0}, u8[1,256]{1,0}) tuple(%i, %fusion.1, %one)
}

ENTRY %main (p0: (s32[], u8[64,256], u8[1,256]), p1: u32[1024]) -> f32[1024] {
  %p0 = (s32[], u8[64,256]{1,0}, u8[1,256]{1,0}) parameter(0)
  %p1 = u32[1024]{0} parameter(1)
  %copied = u32[1024]{0} copy(%p1)
  %loop = (s32[], u8[64,256]{1,0}, u8[1,256]{1,0}) while(%p0), condition=%test, body=%body, metadata={op_name="jit(f)/rows/while"}
  %fusion.2 = (u32[1024]{0}, f32[1024]{0}) fusion(%copied), kind=kLoop, calls=%fused_count
  ROOT %result = f32[1024]{0} get-tuple-element(%fusion.2), index=1
}
"""


PRODUCTS = """HloModule products, is_scheduled=true

ENTRY %main (a: f32[8,32], b: f32[32,4]) -> f32[8,4] {
  %a = f32[8,32]{1,0} parameter(0)
  %b = f32[32,4]{1,0} parameter(1)
  %plain = f32[8,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %library = (f32[8,4]{1,0}, s8[33554432]{0}) custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
}
"""


def test_products_by_hand() -> None:
    """Two operands and a result, 32 products for each of its elements; a library's memory to work in does not count."""
    threads = 8 * 32  # As in other sums, one for each element added up.
    for kernel in kernels.parts(hlo.parse(PRODUCTS)).kernels:
        assert (kernel.num_bytes, kernel.operations, kernel.num_threads) == (4 * (8 * 32 + 32 * 4 + 8 * 4), 32 * 8 * 4, threads)


def test_a_crafted_program_by_hand() -> None:
    top = kernels.parts(hlo.parse(CRAFTED))
    copy, counts = top.kernels
    assert (copy.is_copy, copy.num_bytes, copy.operations) == (True, 8192, 0)
    # Reads words, writes counts and floats; a population count weighs 4, a conversion 1.
    assert (counts.num_bytes, counts.operations, counts.num_threads) == (3 * 4096, 5 * 1024, 1024)
    (loop,) = top.inner
    (row,) = loop.kernels
    # Of the table one row is written in place, and none is read.
    assert row.num_bytes == 4 + 256 + 256
    assert row.num_threads == 256
    assert loop.trip_count is None

    counted = count(CRAFTED, SLOW, {"rows/while": 3.0})
    assert (counted.launches, counted.looks) == (2 + 3, 4)
    assert (counted.unknown_loops, counted.nested_unknown_loops, counted.assumed) == (1, 0, ())
    work = 8192e-3 + 12288e-3 + 3 * max(0.516, row.operations * 1e-3)
    assert counted.seconds == pytest.approx(5 * LAUNCH_SECONDS + 4 * LOOK_SECONDS + work)
    assert [p.kind for p in counted.places] == ["entry", "loop"]
    assert counted.seconds == pytest.approx(sum(p.seconds for p in counted.places))
    assert count(CRAFTED, SLOW, {}).assumed == ("jit(f)/rows/while",)


SUM = """HloModule sum

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

%fused (rows: f32[4,256]) -> f32[4] {
  %rows = f32[4,256]{1,0} parameter(0)
  %zero = f32[] constant(0)
  %sums = f32[4]{0} reduce(%rows, %zero), dimensions={1}, to_apply=%add
  ROOT %sizes = f32[4]{0} abs(%sums)
}

ENTRY %main (p: f32[4,256]) -> f32[4] {
  %p = f32[4,256]{1,0} parameter(0)
  ROOT %result = f32[4]{0} fusion(%p), kind=kInput, calls=%fused
}
"""


@pytest.mark.parametrize(("kind", "threads"), [("kInput", 1024), ("kLoop", 4)])
def test_threads_add_up_together_or_alone(kind: str, threads: int) -> None:
    (kernel,) = kernels.parts(hlo.parse(SUM.replace("kInput", kind))).kernels
    assert kernel.num_threads == threads


def test_few_threads_are_slow() -> None:
    (copy, _) = kernels.parts(hlo.parse(CRAFTED)).kernels
    kernel = kernels.Kernel("k", "", 0, 1000, num_threads=10, is_copy=False)
    assert gpu_count.kernel_seconds(copy, H100) == pytest.approx(8192 / H100.bandwidth)
    assert gpu_count.kernel_seconds(kernel, H100) == pytest.approx(1000 / H100.integer_rate * H100.threads_to_fill / 10)


def test_loops_of_a_real_program() -> None:
    """One loop of known and one of unknown length, one inside the other, and a branch."""

    def program(x: jax.Array, number: jax.Array) -> jax.Array:
        def outer(i: jax.Array, x: jax.Array) -> jax.Array:
            return lax.fori_loop(0, 7, lambda j, x: jnp.sin(x) + jnp.cumsum(x), x) + i

        with jax.named_scope("all_rows"):
            x = lax.fori_loop(0, number, outer, x)
        return lax.cond(number > 3, jnp.cos, jnp.tan, x)

    text = jax.jit(program).lower(jnp.zeros(64), jnp.int32(5)).compile().as_text() or ""
    counted = count(text, H100, {"all_rows": 5.0, "branch_0": 0.0})
    loops = {p.trip_count: p for p in counted.places if p.kind == "loop"}
    assert set(loops) == {None, 7}
    assert loops[None].times == 5
    assert loops[7].times == 35
    assert loops[7].depth > loops[None].depth
    assert (counted.unknown_loops, counted.nested_unknown_loops) == (1, 0)
    assert sum(p.kind == "branch" for p in counted.places) == 2


def test_no_program() -> None:
    with pytest.raises(ValueError, match="it has no ENTRY computation"):
        hlo.parse("nothing")
