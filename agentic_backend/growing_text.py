"""GrowingText: a text that comes in many small pieces. Its memory follows its length, and not their number."""

_PIECES = 512


class GrowingText:
    __slots__ = ("_blocks", "_pieces")

    def __init__(self, text: str = "") -> None:
        self._blocks = [text] if text else []
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
        """All of it, which is kept as one text from then on."""
        if self._pieces or len(self._blocks) > 1:
            self._blocks, self._pieces = ["".join([*self._blocks, *self._pieces])], []
        return self._blocks[0] if self._blocks else ""

    @property
    def parts(self) -> list[str]:
        """What it is kept as."""
        return [*self._blocks, *self._pieces]
