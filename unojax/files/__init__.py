"""Files: written as a whole or not at all (`whole`; tables in parts, `columns`), and Python files with policies and agents of
one's own (`own`)."""

from unojax.files.whole import check_target, is_special, write_whole

__all__ = ["check_target", "is_special", "write_whole"]
