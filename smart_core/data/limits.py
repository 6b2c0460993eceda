"""How much memory a file may ask for: what it claims to hold is held against the bytes it really has."""

from __future__ import annotations

from smart_core.data.found import refuse

MAX_BYTES = 8 << 30
"""No file may be larger than this, nor unpack to more."""
ALWAYS_FINE_BYTES = 256 << 20
"""Below this size nothing is suspected of being a bomb, however small the file that claims it."""
MAX_RATIO = 200
"""Above that size, what is unpacked may be at most this many times larger than the bytes it came from."""
PLAIN_RATIO = 8
"""How many times larger even uncompressed content may become on its way to an array."""


class Budget:
    """One account for everything that is made of one file, charged before it is made."""

    def __init__(self, file: str, held: int, ratio: int = MAX_RATIO) -> None:
        self.file, self.held, self.ratio = file, held, ratio
        self.spent = 0

    def spend(self, what: str, claimed: int) -> None:
        """Refuses what would take the whole out of proportion to the file."""
        self.spent += claimed
        if self.spent > max(ALWAYS_FINE_BYTES, PLAIN_RATIO * self.held, min(self.ratio * self.held, MAX_BYTES)):
            raise refuse(
                self.file,
                f"{what} claims {bytes_shown(self.spent)} out of {bytes_shown(self.held)} in the file",
                "the file is damaged or a decompression bomb; save the arrays again",
            )


def check_claim(file: str, what: str, claimed: int, held: int) -> None:
    """The same for a single claim."""
    Budget(file, held).spend(what, claimed)


def bytes_shown(count: int) -> str:
    """A size for a sentence."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
