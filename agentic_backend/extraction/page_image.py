"""What an image of a page may be, which a program has drawn that its file may have taken over. Pure."""

import json
import struct

PNG = b"\x89PNG\r\n\x1a\n"
MOST_BYTES = 2 * 1024 * 1024
MOST_PIXELS = 2_500_000
LONGEST_SIDE = 4_000
"""In pixels."""
_HEAD = struct.Struct(">8sI4sII")


def packed_image(image: bytes) -> bytes:
    """The image as the program prints it, below a line of JSON."""
    return json.dumps({"bytes": len(image)}).encode() + b"\n" + image


def unpacked_image(data: bytes, head: object) -> bytes:
    """The PNG of which `head` is the JSON in the first line of `data`. Raises ValueError if it is none."""
    image = data[data.index(b"\n") + 1 :]
    if head != {"bytes": len(image)} or not _HEAD.size <= len(image) <= MOST_BYTES:
        raise ValueError("no image")
    signature, _, kind, width, height = _HEAD.unpack_from(image)
    is_fit = 0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE and width * height <= MOST_PIXELS
    if signature != PNG or kind != b"IHDR" or not is_fit:
        raise ValueError("no image")
    return image
