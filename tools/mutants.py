"""Lists mutants of the product, small faults of which each should fail a test, and runs a command with each in turn.

    python tools/mutants.py list
    python tools/mutants.py run [--only 3,17-20] [--timeout SECONDS] -- COMMAND …

A mutant turns a condition or a guard round, or changes a constant. Which ones is chosen at random with a fixed seed, so
many in each big package, so the same code has the same mutants. `run` changes the checkout that it lies in, and changes
it back: use a clone. `{file}` in the command is the changed file. A mutant is killed if the command fails, or takes
longer than the timeout; the exit status is the number of those that survived.
"""

import argparse
import ast
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "agentic_backend"
# Packages with fewer lines are not big.
BIG = 3_000
OTHERWISE = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True)
class Mutant:
    """`before` stands at these bytes of the file, and becomes `after`."""

    file: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file.relative_to(ROOT)}:{self.line}: {before} → {after}"


def mutants(seed: int, each: int) -> list[Mutant]:
    """`each` of every big package, in the order of files and lines."""
    chosen: list[Mutant] = []
    for package in sorted(path for path in PRODUCT.iterdir() if path.is_dir()):
        files = sorted(package.rglob("*.py"))
        if sum(len(file.read_bytes().splitlines()) for file in files) < BIG:
            continue
        possible = [mutant for file in files for mutant in mutants_of(file)]
        # A generator for each package: a change in one leaves the mutants of the others as they are.
        picked = random.Random(f"{seed} {package.name}").sample(possible, min(each, len(possible)))
        chosen += sorted(picked, key=lambda mutant: (mutant.file, mutant.start))
    return chosen


def mutants_of(file: Path) -> Iterator[Mutant]:
    """All of a file."""
    source = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def mutant(first: ast.expr, last: ast.expr, after: str) -> Mutant:
        assert last.end_lineno is not None and last.end_col_offset is not None
        start = starts[first.lineno - 1] + first.col_offset
        end = starts[last.end_lineno - 1] + last.end_col_offset
        return Mutant(file, first.lineno, start, end, source[start:end].decode(), after)

    for node in _walked(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in OTHERWISE:
                turned = f"({ast.unparse(left)} {OTHERWISE[type(operator)]} {ast.unparse(right)})"
                yield mutant(node, node, turned)
            case ast.BoolOp(op=operator, values=values):
                word = " or " if isinstance(operator, ast.And) else " and "
                yield mutant(node, node, f"({word.join(f'({ast.unparse(value)})' for value in values)})")
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare):
                yield mutant(test, test, f"(not ({ast.unparse(test)}))")
            case ast.Constant(value=bool() as value):
                yield mutant(node, node, str(not value))
            case ast.Constant(value=int() | float() as value):
                yield mutant(node, node, repr(value * 2 + 1))


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: without decorators and annotations, and without the parts of f-strings, whose places Python 3.11 does
    not tell.
    """
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("decorator_list", "annotation", "returns") and not isinstance(node, ast.JoinedStr):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walked(child)


def survives(mutant: Mutant, command: Sequence[str], timeout_s: float) -> bool:
    """Whether the command succeeds though the file is changed."""
    source = mutant.file.read_bytes()
    assert source[mutant.start : mutant.end].decode() == mutant.before
    changed = source[: mutant.start] + mutant.after.encode() + source[mutant.end :]
    name = str(mutant.file.relative_to(ROOT))
    try:
        mutant.file.write_bytes(changed)
        told = [word.replace("{file}", name) for word in command]
        run = subprocess.run(told, cwd=ROOT, timeout=timeout_s, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return run.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        mutant.file.write_bytes(source)


def numbers(text: str) -> set[int]:
    """Those of "3,17-20"."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=20, help="how many of each big package")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list")
    run = actions.add_parser("run")
    run.add_argument("--only", type=numbers, help="their numbers in the list")
    run.add_argument("--timeout", type=float, default=600)
    run.add_argument("command", nargs="+")
    given = parser.parse_args()
    survivors = 0
    for number, mutant in enumerate(mutants(given.seed, given.each), 1):
        if given.action == "list":
            print(f"{number:3} {mutant}")
        elif given.only is None or number in given.only:
            survived = survives(mutant, given.command, given.timeout)
            survivors += survived
            print(f"{'survived' if survived else 'killed  '} {number:3} {mutant}", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
