"""The accent of the page by a setting: a colour that can be read in both themes.

What is written in the accent, and what is written on it, has a contrast of at least 4.5:1 (WCAG 2.2, 1.4.3). A colour
that has less is made darker for the light theme and lighter for the dark one, in small steps, keeping its hue.
"""

from itertools import count

Colour = tuple[float, float, float]
"""Red, green and blue in sRGB, each from 0 to 1."""

# Of the surfaces that the accent stands on in `style.css`, those with the least contrast; and what is written on it.
LIGHT_SURFACE, DARK_SURFACE = "#ecece9", "#2a2c31"
ON_LIGHT_ACCENT, ON_DARK_ACCENT = "#ffffff", "#10202f"

_LEAST = 4.5
_STEP = 0.02
_WHITE, _BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)


def accent_stylesheet(accent: str) -> str:
    """The stylesheet that sets the page's colours from `accent`, as `#rrggbb`."""
    light, dark = accents(accent)
    stronger = _hex(_mixed(_colour(light), _BLACK, 0.2)), _hex(_mixed(_colour(dark), _WHITE, 0.25))
    # A question's bubble is the page with a breath of the accent.
    bubbles = _hex(_mixed(_WHITE, _colour(light), 0.1)), _hex(_mixed(_colour("#1a1b1e"), _colour(dark), 0.2))
    colours = {
        "accent": (light, dark),
        "accent-strong": stronger,
        "on-accent": (ON_LIGHT_ACCENT, ON_DARK_ACCENT),
        "bubble": bubbles,
    }
    lines = [f"  --{name}: light-dark({on_light}, {on_dark});" for name, (on_light, on_dark) in colours.items()]
    return "\n".join([":root {", *lines, "}", ""])


def accents(accent: str) -> tuple[str, str]:
    """What becomes of `accent` in the light theme and in the dark one."""
    light = _readable(_colour(accent), _BLACK, (LIGHT_SURFACE, ON_LIGHT_ACCENT))
    return _hex(light), _hex(_readable(_colour(accent), _WHITE, (DARK_SURFACE, ON_DARK_ACCENT)))


def contrast(one: str, other: str) -> float:
    """From 1 to 21, as WCAG 2.2 defines it."""
    darker, lighter = sorted((_luminance(_colour(one)), _luminance(_colour(other))))
    return (lighter + 0.05) / (darker + 0.05)


def _readable(colour: Colour, towards: Colour, beside: tuple[str, ...]) -> Colour:
    """`colour`, mixed with as little of `towards` as the contrast needs. Black or white would do in the end."""
    for step in count():
        mixed = _mixed(colour, towards, min(1.0, step * _STEP))
        if step * _STEP >= 1 or all(contrast(_hex(mixed), each) >= _LEAST for each in beside):
            return mixed
    raise AssertionError("unreachable")


def _mixed(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (a + (b - a) * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def _luminance(colour: Colour) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _colour(written: str) -> Colour:
    red, green, blue = (int(written[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in colour)
