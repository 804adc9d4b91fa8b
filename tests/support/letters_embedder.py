"""A very small embedding model, which a worker process imports at once."""


class Letters:
    def embed(self, texts: list[str], kind: str) -> list[list[float]]:
        return [[1.0, *(float(text.lower().count(letter)) for letter in "aeioubdgklnrst")] for text in texts]


class NoLetters:
    def __init__(self) -> None:
        raise ImportError("nothing is installed")
