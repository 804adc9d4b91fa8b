"""What a module answers, read by its types and within bounds."""

import pytest

from agentic_backend.policy.hook_result import Extraction, HookResult
from agentic_backend.policy.hooks.hook_checks import InvalidResult, checked


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_are_those_that_every_client_reads(sign: int) -> None:
    """JavaScript has doubles."""
    longest = sign * (2**53 - 1)
    [extraction] = checked(HookResult(extractions=[Extraction("x", {"a": longest})])).extractions
    assert extraction.data == {"a": longest}
    with pytest.raises(InvalidResult, match="is not JSON"):
        checked(HookResult(extractions=[Extraction("x", {"a": longest + sign})]))
