"""Settings for all tests; read by pytest before any test module, and so before JAX is imported."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

# Compiling takes most of the time of a test run, so compiled programs are kept between runs. JAX's key for an entry covers the
# program, the compiler, its flags and the machine, so an outdated entry is never used. Set in the environment, the cache also
# serves programs that a test starts. A folder that the user has chosen is kept.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

# The first example of a property compiles, which no deadline per example allows for.
settings.register_profile("unojax", deadline=None)
settings.load_profile("unojax")
