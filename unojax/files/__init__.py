"""Files: reading of text (`reading`), atomic writing (`whole`), tables in parts (`columns`), users' code (`own`)."""

from unojax.files.reading import decode, read_text
from unojax.files.whole import check_target, is_special, write_whole

__all__ = ["check_target", "decode", "is_special", "read_text", "write_whole"]
