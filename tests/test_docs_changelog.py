"""CHANGELOG.md has the form of Keep a Changelog."""

import re

from support.documents import CHECKOUT

HEADING = re.compile(
    r"# Changelog|## \[(Unreleased|\d+\.\d+\.\d+)\]( - \d{4}-\d\d-\d\d)?|"
    r"### (Added|Changed|Deprecated|Removed|Fixed|Security)|#### For .+"
)


def test_the_headings_are_versions_and_kinds_of_changes() -> None:
    headings = re.findall(r"^#.*$", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["# Changelog", "## [Unreleased]"]
    assert [heading for heading in headings if not HEADING.fullmatch(heading)] == []
