"""`python -m unojax` is the command line `unojax`."""

from __future__ import annotations

import sys

from unojax.cli import main

if __name__ == "__main__":
    sys.exit(main())
