"""GrowingText: a text built from many small pieces. Its memory depends on its length, not on their number."""

_PIECES = 512


class GrowingText:
    __slots__ = ("_blocks", "_pieces", "length")

    def __init__(self, text: str = "") -> None:
        self._blocks = [text] if text else []
        """Blocks of _PIECES joined pieces."""
        self._pieces: list[str] = []
        """The pieces after the last block."""
        self.length = len(text)

    def add(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self.length += len(text)
        if len(self._pieces) >= _PIECES:
            self._blocks.append("".join(self._pieces))
            self._pieces = []

    def add_all(self, other: "GrowingText") -> None:
        self._blocks += [*self._pieces, *other._blocks]
        self._pieces = other._pieces.copy()
        self.length += other.length

    def joined(self) -> str:
        """The whole text; from now on it is kept as one block."""
        if self._pieces or len(self._blocks) > 1:
            self._blocks, self._pieces = ["".join([*self._blocks, *self._pieces])], []
        return self._blocks[0] if self._blocks else ""

    def after(self, length: int) -> str:
        """The text without its first `length` characters; what it is kept in stays as it is."""
        found: list[str] = []
        missing = self.length - length
        for part in reversed(self.parts):
            if missing <= 0:
                break
            found.append(part[max(0, len(part) - missing) :])
            missing -= len(part)
        return "".join(reversed(found))

    def begins(self, text: str) -> bool:
        """Whether `text` begins with this one; copies neither."""
        at = 0
        for part in self.parts:
            if not text.startswith(part, at):
                return False
            at += len(part)
        return True

    @property
    def parts(self) -> list[str]:
        """The blocks and pieces, in order."""
        return [*self._blocks, *self._pieces]
