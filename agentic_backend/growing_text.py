"""GrowingText: a text built from many small pieces. Its memory depends on its length, not on their number."""

_PIECES = 512


class GrowingText:
    __slots__ = ("_blocks", "_pieces")

    def __init__(self, text: str = "") -> None:
        # Blocks of _PIECES joined pieces.
        self._blocks = [text] if text else []
        # The pieces after the last block.
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        if text:
            self._pieces.append(text)
        if len(self._pieces) >= _PIECES:
            self._blocks.append("".join(self._pieces))
            self._pieces = []

    def add_all(self, other: "GrowingText") -> None:
        self._blocks += [*self._pieces, *other._blocks]
        self._pieces = other._pieces.copy()

    def joined(self) -> str:
        """The whole text; from now on it is kept as one block."""
        if self._pieces or len(self._blocks) > 1:
            self._blocks, self._pieces = ["".join([*self._blocks, *self._pieces])], []
        return self._blocks[0] if self._blocks else ""

    @property
    def parts(self) -> list[str]:
        """The blocks and pieces, in order."""
        return [*self._blocks, *self._pieces]
