"""The accent can be read in both themes, whichever colour is set."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.transports.page.accent import (
    DARK_SURFACE,
    LIGHT_SURFACE,
    ON_DARK_ACCENT,
    ON_LIGHT_ACCENT,
    accent_stylesheet,
    accents,
    contrast,
)
from agentic_backend.transports.page.page import WEB

COLOURS = st.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")
SURFACES = ("page", "side", "raised", "sunken", "hover")


@given(COLOURS)
def test_any_accent_can_be_read_and_written_on(colour: str) -> None:
    light, dark = accents(colour)
    assert min(contrast(light, LIGHT_SURFACE), contrast(light, ON_LIGHT_ACCENT)) >= 4.5
    assert min(contrast(dark, DARK_SURFACE), contrast(dark, ON_DARK_ACCENT)) >= 4.5


@given(COLOURS)
def test_a_question_can_be_read_on_its_bubble(colour: str) -> None:
    bubble = re.search(r"--bubble: light-dark\((\S+), (\S+)\)", accent_stylesheet(colour))
    assert bubble is not None
    assert contrast(bubble[1], "#22252a") >= 4.5 and contrast(bubble[2], "#e4e5e8") >= 4.5


def test_a_colour_that_can_be_read_stays_as_it_is() -> None:
    assert accents("#2f6299")[0] == "#2f6299"
    assert accents("#ffd54f")[1] == "#ffd54f"


@pytest.mark.parametrize(("one", "other", "ratio"), [("#000000", "#ffffff", 21), ("#777777", "#ffffff", 4.48)])
def test_contrast_is_what_wcag_says(one: str, other: str, ratio: float) -> None:
    assert contrast(one, other) == contrast(other, one) == pytest.approx(ratio, abs=0.01)


def test_the_page_has_no_surface_with_less_contrast() -> None:
    style = (WEB / "style.css").read_text()
    for name in SURFACES:
        colours = re.search(rf"--{name}: light-dark\((#[0-9a-f]{{6}}), (#[0-9a-f]{{6}})\);", style)
        assert colours is not None, name
        assert contrast("#000000", colours[1]) >= contrast("#000000", LIGHT_SURFACE), name
        assert contrast("#ffffff", colours[2]) >= contrast("#ffffff", DARK_SURFACE), name
