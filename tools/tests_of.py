"""Which tests run a file of the product, and which are quick: from a map of what ran when the tests were recorded.

    python tools/tests_of.py select FILE …
    python tools/tests_of.py quick
    python tools/tests_of.py record [--keep DIRECTORY] [ARGUMENT OF PYTEST …]

`select` prints files of tests, the quickest first. `quick` prints those that take half a second each, and tells on
standard error what it leaves out. `record` runs pytest, notes which functions of the product each file of tests runs,
in whatever process, and writes the map, `tests_of.json` beside this file. Each function gets some of the files that run
it: those that take little time, run little else or name the module; all, where few run it.

Without paths `record` runs all tests, and writes the map anew. With some, what it knows of the others stays. With
`--keep` the notes of each file of tests are kept in a directory, and the map is made of all that lie there: so the
tests can be recorded in parts.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT, TESTS = "agentic_backend", "tests"
MAP = Path("tools", "tests_of.json")
RECORDER = Path(__file__).parent / "recorder"
sys.path.append(str(RECORDER))

from function_recorder import NOTES, functions  # noqa: E402

# A function has so many files of tests, as long as all those of its module together take no longer than this.
COVERS = 4
BUDGET_S = 40.0
QUICK_S = 0.5
# Time in the map is rounded up to one of these: it differs with each recording, and the map shall not.
TIMES_S = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600)


@dataclass(frozen=True)
class Ran:
    """What a file of tests took, and the functions that it ran, by file of the product."""

    cpu_s: float
    wall_s: float
    ran: Mapping[str, Sequence[str]]

    @property
    def seconds(self) -> float:
        """About what it takes alone: while it was recorded, other lanes ran beside it."""
        return max(self.cpu_s, self.wall_s / 3)


@dataclass(frozen=True)
class Map:
    """Seconds of each recorded file of tests, and the files of tests of each file of the product."""

    seconds: dict[str, float]
    tests: dict[str, list[str]]

    @classmethod
    def read(cls, root: Path) -> "Map":
        if not (root / MAP).is_file():
            return cls({}, {})
        return cls(**json.loads((root / MAP).read_text()))

    def write(self, root: Path) -> None:
        tests = {file: sorted(tests) for file, tests in self.tests.items()}
        text = json.dumps({"seconds": self.seconds, "tests": tests}, indent=0, sort_keys=True)
        (root / MAP).write_text(text + "\n")


def select(root: Path, files: Sequence[str]) -> list[str]:
    """The tests of these files, the quickest first; those that the map doesn't know and that name one of them too."""
    known, naming, found = Map.read(root), Naming(root), set[str]()
    for file in files:
        found |= {test for test in known.tests.get(file, ()) if (root / test).is_file()}
        named = naming.tests(file)
        if file in known.tests:
            found |= {test for test in named if test not in known.seconds}
        else:
            found |= set(within_budget(named | mirrored(root, file), known.seconds))
    return sorted(found, key=lambda test: (known.seconds.get(test, 0), test))


def quick(root: Path) -> list[str]:
    """The tests that take no longer than QUICK_S by file; standard error is told of the others."""
    seconds = Map.read(root).seconds
    tests = sorted(path.relative_to(root).as_posix() for path in (root / TESTS).rglob("test_*.py"))
    found = [test for test in tests if seconds.get(test, TIMES_S[-1]) <= QUICK_S]
    left = Counter(Path(test).parts[1].removesuffix(".py") for test in tests if test not in set(found))
    folders = ", ".join(f"{folder} {count}" for folder, count in sorted(left.items()))
    print(f"{len(found)} of {len(tests)} files of tests; left out, see make check: {folders}", file=sys.stderr)
    return found


def within_budget(tests: set[str], seconds: Mapping[str, float]) -> Iterator[str]:
    left = BUDGET_S
    for test in sorted(tests, key=lambda test: (seconds.get(test, 0), test)):
        left -= seconds.get(test, 0)
        if left < 0:
            return
        yield test


def mirrored(root: Path, file: str) -> set[str]:
    """The tests in the folder that mirrors the file's, or the nearest above; none but `test_<name>` at the top."""
    path = Path(file).relative_to(PRODUCT) if file.startswith(f"{PRODUCT}/") else Path(file)
    for folder in path.parents:
        pattern = "test_*.py" if folder.name else f"test_{path.stem}*.py"
        if found := [*(root / TESTS / folder).glob(pattern)]:
            return {test.relative_to(root).as_posix() for test in found}
    return set()


class Naming:
    """Which tests name a module, in an import or a string; of another file, as of the page's, its name."""

    def __init__(self, root: Path) -> None:
        self._of: defaultdict[str, set[str]] = defaultdict(set)
        for path in sorted((root / TESTS).rglob("test_*.py")):
            test, text = path.relative_to(root).as_posix(), path.read_text()
            for package, names in re.findall(rf"from ({PRODUCT}[\w.]*) import (\([^)]*\)|.*)", text):
                for name in [package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))]:
                    self._of[name].add(test)
            for name in re.findall(rf"{PRODUCT}[\w.]*|[\w-]+\.[a-z]+", text):
                self._of[name].add(test)

    def tests(self, file: str) -> set[str]:
        path = Path(file)
        if path.suffix != ".py":
            return self._of[path.name]
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        return self._of[".".join(module.parts)]


def record(root: Path, arguments: Sequence[str], keep: Path | None) -> int:
    """Run pytest with these arguments, and write the map; returns the exit status of pytest."""
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory)
        index: dict[str, int] = {}
        known: list[tuple[str, str]] = []
        for file in sorted((root / PRODUCT).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            index[path] = len(known)
            known += [(path, name) for name, _ in functions(ast.parse(file.read_bytes()))]
        (notes / "code").mkdir()
        (notes / "ran").mkdir()
        (notes / "index.json").write_text(json.dumps({"root": str(root), "size": len(known), "first": index}))
        paths = [str(RECORDER), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {NOTES: directory, "PYTHONPATH": os.pathsep.join(paths)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "pytest", "-p", "recording_plugin", *arguments]
        status = subprocess.run(command, cwd=root, env=environment).returncode
        new = dict(noted(notes / "ran", known))
    if keep is not None:
        for test, ran in new.items():
            (keep / test).parent.mkdir(parents=True, exist_ok=True)
            (keep / f"{test}.json").write_text(json.dumps(vars(ran)))
        new = kept(keep)
    mapped(root, new).write(root)
    return status


def noted(ran: Path, known: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Ran]]:
    """What the recorder has noted of each file of tests."""
    for spent in sorted(ran.rglob("*.spent")):
        test = spent.with_suffix("")
        found: defaultdict[str, list[str]] = defaultdict(list)
        for (file, name), byte in zip(known, test.read_bytes(), strict=True):
            if byte:
                found[file].append(name)
        times = [[float(word) for word in line.split()] for line in spent.read_text().splitlines()]
        cpu_s, wall_s = map(sum, zip(*times, strict=True))
        yield test.relative_to(ran).as_posix(), Ran(cpu_s, wall_s, found)


def kept(directory: Path) -> dict[str, Ran]:
    notes = sorted(directory.rglob("*.py.json"))
    return {
        note.relative_to(directory).with_suffix("").as_posix(): Ran(**json.loads(note.read_text())) for note in notes
    }


def mapped(root: Path, new: Mapping[str, Ran]) -> Map:
    """The map of what was recorded now and what it knew of other tests."""
    old, naming = Map.read(root), Naming(root)
    others = {test for test in old.seconds if test not in new and (root / test).is_file()}
    seconds = {test: next((most for most in TIMES_S if ran.seconds <= most), TIMES_S[-1]) for test, ran in new.items()}
    tests: dict[str, list[str]] = {}
    for file in sorted((root / PRODUCT).rglob("*.py")):
        path = file.relative_to(root).as_posix()
        known = [test for test in old.tests.get(path, ()) if test in others]
        running = {test: ran for test, ran in new.items() if path in ran.ran}
        named = naming.tests(path)
        if known:
            # Which functions these run is not known any more: of the new ones, those that had been chosen.
            chosen = {test for test in running if test in old.tests[path] or test in named}
        else:
            chosen = chosen_of(path, running, named)
        if chosen or known:
            tests[path] = sorted({*known, *chosen})
    return Map({test: old.seconds[test] for test in others} | seconds, tests)


def chosen_of(file: str, running: Mapping[str, Ran], named: set[str]) -> set[str]:
    """Some of the tests that run functions of this file: one for each function, and more within the budget."""
    price: dict[str, float] = {}
    for test, ran in running.items():
        # What runs much else says little of this file, and what names it says most.
        spread = sum(map(len, ran.ran.values()))
        price[test] = (ran.seconds + 0.5) * spread**0.5 / (4 if test in named else 1)
    covers: Counter[str] = Counter()
    left = dict(sorted(running.items()))
    budget_s = BUDGET_S
    for wanted in range(1, COVERS + 1):
        while True:
            gains = {test: sum(covers[name] < wanted for name in ran.ran[file]) for test, ran in left.items()}
            best = max(left, key=lambda test: gains[test] / price[test], default=None)
            if best is None or gains[best] == 0:
                break
            if wanted > 1 and left[best].seconds > budget_s:
                return running.keys() - left.keys()
            budget_s -= left[best].seconds
            covers.update(set(left.pop(best).ran[file]))
    return running.keys() - left.keys()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    selecting = actions.add_parser("select")
    selecting.add_argument("files", nargs="+")
    actions.add_parser("quick")
    recording = actions.add_parser("record")
    recording.add_argument("--keep", type=Path)
    given, rest = parser.parse_known_args()
    if given.action == "record":
        return record(ROOT, rest, given.keep)
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    tests = quick(ROOT) if given.action == "quick" else select(ROOT, [Path(each).as_posix() for each in given.files])
    print("\n".join(tests))
    return 0 if tests else 1


if __name__ == "__main__":
    sys.exit(main())
