"""The results as JUnit's XML, which build servers read."""

import re
from xml.etree import ElementTree

from agentic_backend.evals.results import CaseResult, Results

# XML 1.0 can't have them, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_of(results: Results) -> bytes:
    """One suite with a test case for each run."""
    suite = ElementTree.Element(
        "testsuite",
        name=_text(results.file),
        tests=str(len(results.cases)),
        failures=str(results.count("failed")),
        errors=str(results.count("error")),
        timestamp=results.began_at.isoformat(timespec="seconds"),
        time=f"{results.took_s:.3f}",
    )
    for case in results.cases:
        _add(suite, case)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def _add(suite: ElementTree.Element, case: CaseResult) -> None:
    name = f"{case.id} (run {case.run})" if case.run > 1 else case.id
    test = ElementTree.SubElement(
        suite, "testcase", classname=_text(case.agent or "default"), name=_text(name), time=f"{case.latency_s:.3f}"
    )
    if case.outcome != "passed":
        kind = "failure" if case.outcome == "failed" else "error"
        told = ElementTree.SubElement(test, kind, message=_text(case.told[0]))
        told.text = _text("\n".join(case.told))
    if case.answer:
        ElementTree.SubElement(test, "system-out").text = _text(case.answer)


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
