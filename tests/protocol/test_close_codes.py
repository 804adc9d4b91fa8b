"""The codes that close a socket: which errors lead to them, and what they tell a client."""

from agentic_backend.errors import AgenticError, Forbidden, RateLimited, ShuttingDown, TokenExpired, Unauthenticated
from agentic_backend.protocol.close_codes import Advice, CloseCode, closing, closing_handshake

ERRORS = AgenticError.__subclasses__()


def test_only_a_token_that_is_not_good_and_a_server_that_goes_close_the_socket() -> None:
    codes = {error: closing(error()) for error in ERRORS if closing(error()) is not None}
    assert codes == {
        Unauthenticated: CloseCode.SIGN_IN_AGAIN,
        TokenExpired: CloseCode.SIGN_IN_AGAIN,
        ShuttingDown: CloseCode.RESTART,
    }


def test_who_is_not_let_in_is_told_whether_to_come_back() -> None:
    told = {error: closing_handshake(error()) for error in ERRORS}
    assert told[Forbidden] is CloseCode.FORBIDDEN and told[RateLimited] is CloseCode.TOO_MANY
    for error in set(ERRORS) - {Forbidden, RateLimited}:
        assert told[error] is (closing(error()) or CloseCode.INTERNAL_ERROR)


def test_the_codes_are_those_of_the_contract() -> None:
    by_advice = {advice: {int(code) for code in CloseCode if code.advice is advice} for advice in Advice}
    assert by_advice == {
        Advice.RECONNECT: {1001, 1011, 1012, 4008},
        Advice.SIGN_IN: {4401},
        Advice.WAIT: {4429},
        Advice.STAY_AWAY: {1008, 1009, 4403},
    }
