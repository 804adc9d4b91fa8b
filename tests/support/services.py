"""What tests need of the machine they run on: without it a test is skipped, but never where CI counts on it."""

import os

import pytest


def require(service: str, available: bool, reason: str) -> None:
    """Skip the running test where `service` is not available; where CI=true fail it, for a skip is no green check."""
    if available:
        return
    problem = f"needs {service}: {reason}"
    if os.environ.get("CI") == "true":
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)
