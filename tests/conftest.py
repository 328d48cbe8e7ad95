"""Settings for all tests, read before JAX is imported."""

from __future__ import annotations

import ctypes
import functools
import gc
import math
import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

from tests.chromium import chromium, open_page

# Fixtures are found by their names here.
__all__ = ["chromium", "open_page"]

# Compiling takes most of the time of a test run, so compiled programs are kept between runs. JAX's key for an entry covers the
# program, the compiler, its flags and the machine, so an outdated entry is never used. Set in the environment, the cache also
# serves programs that a test starts. A folder that the user has chosen is kept.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# Most programs of the tests run for milliseconds, so they are compiled without optimising, in less than half the time; those of
# tests marked `optimized` run longer. `JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA_FLAGS= make test` runs the programs that users run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Two workers share two cores: a pool of threads in each of them looks for work in vain, a tenth of the time of programs that run.
os.environ.setdefault("NPROC", "1")
# NumPy's too: its products are small, and the other threads wait for the next one in a loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Programs name no line of source: a tenth of the time of lowering them.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# Those that are optimised leave out the passes that take longest, a tenth of the time of such tests.
FLAGS = "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"
# One thread compiles a program, so splitting its code into 32 parts only costs time: a tenth of compiling.
FLAGS += " --xla_cpu_parallel_codegen_split_count=1"
if version("jaxlib").startswith("0.10."):
    # Later releases have no other way to build a fusion, and stop at a flag that they do not know.
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", FLAGS)

# Tracing makes many objects that live on, which are looked at again and again otherwise: a twentieth of the time.
gc.set_threshold(200_000, 20, 50)

# The first example of a property compiles, which no deadline per example allows for.
settings.register_profile("unojax", deadline=None)
settings.load_profile("unojax")


MEMORY_KEPT = 1.2e9
"""Bytes that a worker may hold from one file to the next; with the dearest file on top it stays below 2 GB."""


PROGRAMS_OF_A_FILE = 50
"""Programs that a file may build if it has no constant `PROGRAMS`."""


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def compile_fast_or_well(request: pytest.FixtureRequest) -> Iterator[None]:
    """Optimise the programs of tests marked so."""
    if request.node.get_closest_marker("optimized") is None:
        yield
        return
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put a file's slow tests last, so that the others build the same programs as in `make test`."""
    places: dict[pytest.Module | None, int] = {}
    for item in items:
        places.setdefault(item.getparent(pytest.Module), len(places))
    items.sort(key=lambda item: (places[item.getparent(pytest.Module)], is_slow(item)))


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


_BUILT_BEFORE = pytest.StashKey[int]()
"""Programs that were built before a test."""
_BUILT = pytest.StashKey[int]()
"""Programs that the tests of a file have built, except slow ones, which build programs of their own."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BUILT_BEFORE] = programs_built()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail a file of `make test` that compiles more programs than its constant `PROGRAMS` (default `PROGRAMS_OF_A_FILE`).

    Each operation on JAX arrays outside `jit` is a program for each shape, so use NumPy to prepare and compare arrays.
    """
    yield
    file = item.getparent(pytest.Module)
    if file is None:
        return
    built = file.stash.get(_BUILT, 0)
    if not is_slow(item):
        built += programs_built() - item.stash[_BUILT_BEFORE]
    file.stash[_BUILT] = built
    if nextitem is None or nextitem.getparent(pytest.Module) is not file:
        # A worker may come back to the file, after its programs were freed.
        file.stash[_BUILT] = 0
        limit = getattr(file.obj, "PROGRAMS", PROGRAMS_OF_A_FILE)
        assert built <= limit, f"{file.nodeid} built {built} programs, its limit is PROGRAMS = {limit}"


@functools.cache
def build_events() -> list[str]:
    """Return a list that grows by an element with each program that JAX builds or loads in this process."""
    import jax

    events: list[str] = []

    def listen(event: str, _: float, **__: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return events


def programs_built() -> int:
    """Return the number of programs built in this process."""
    return len(build_events())


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Free compiled programs after files that leave a worker with several GB of them."""
    yield
    if memory_held() < MEMORY_KEPT:
        return
    import jax

    jax.clear_caches()
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        # Freed, but kept by the allocator for a next time.
        ctypes.CDLL(None).malloc_trim(0)


def memory_held() -> float:
    """Return the bytes held by this process; infinity except on Linux."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return math.inf
