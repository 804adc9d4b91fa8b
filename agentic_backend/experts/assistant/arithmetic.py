"""Arithmetic on text, safe for any input of a person or a model: only numbers are evaluated. Pure.

Bounds the length, the nesting and the size of every intermediate number, so that no expression takes noticeable time.
"""

import ast
import math
import operator
import re
from collections.abc import Callable

from agentic_backend.syntax_tree import parsed

MAX_LENGTH = 200
MAX_BITS = 2_048
"""The number of binary digits of the largest integer."""

Number = int | float

_ALLOWED = re.compile(r"[\d\s.()+\-*/%eE]*")
_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


class ArithmeticProblem(ValueError):
    """The expression can't be evaluated. The text explains why to the person."""


def evaluate(expression: str) -> Number:
    """The value of `expression`: numbers, + - * / // % ** and parentheses. Raises ArithmeticProblem."""
    if len(expression) > MAX_LENGTH:
        raise ArithmeticProblem(f"The expression is longer than {MAX_LENGTH} characters.")
    if not expression.strip() or not _ALLOWED.fullmatch(expression):
        raise ArithmeticProblem("Only numbers, + - * / // % ** and parentheses can be calculated.")
    try:
        return _value(parsed(expression.strip(), "eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ArithmeticProblem("The expression is not complete or not in order.") from error
    except ZeroDivisionError as error:
        raise ArithmeticProblem("Nothing can be divided by zero.") from error
    except OverflowError as error:
        raise ArithmeticProblem("The result is too large.") from error


def written(number: Number) -> str:
    """`number` as text: integers in full, other numbers with at most twelve digits."""
    return str(number) if isinstance(number, int) else f"{number:.12g}"


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.UnaryOp(op=sign, operand=operand):
            return _UNARY[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=operation, right=right):
            return _apply(operation, _value(left), _value(right))
    raise ArithmeticProblem("Only numbers, + - * / // % ** and parentheses can be calculated.")


def _apply(operation: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(operation, ast.Pow) and isinstance(left, int) and isinstance(right, int):
        # Check before computing the power, which may take long.
        if left.bit_length() * abs(right) > MAX_BITS:
            raise ArithmeticProblem("The power is too large.")
    return _bounded(_BINARY[type(operation)](left, right))


def _bounded(number: Number) -> Number:
    if isinstance(number, complex):
        raise ArithmeticProblem("The result is not a real number.")
    if isinstance(number, int) and number.bit_length() > MAX_BITS:
        raise ArithmeticProblem("The result is too large.")
    if not math.isfinite(number):
        raise ArithmeticProblem("The result is too large.")
    return number
