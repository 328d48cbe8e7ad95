"""Files: atomic writing (`whole`), tables in parts (`columns`), users' code (`own`)."""

from unojax.files.whole import check_target, is_special, write_whole

__all__ = ["check_target", "is_special", "write_whole"]
