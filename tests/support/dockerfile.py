"""Runs a Dockerfile's steps without an engine: each stage is a directory, its base image is this machine's Python.

Absolute paths are mapped below that directory, so that the steps run as written. One is not, unless it is asked for:
what installs the lock. `make` has run the same with the same lock for this Python, so the result is there to copy.
"""

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from packaging.requirements import Requirement

from support.services import require

_STEP_S = 600
_ABSOLUTE = re.compile(r"(?<![\w./$-])/(?=\w)")
_INSTALLS_THE_LOCK = re.compile(r"(\S+)/bin/pip install --require-hashes --no-deps -r (\S+)")
_NOT_HANDED_ON = ("AGENTIC_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")
_NOT_SENT = shutil.ignore_patterns("__pycache__")
_NOT_OF_PYTHON = shutil.ignore_patterns("site-packages", "dist-packages", "test", "config-*", "__pycache__")


@dataclass(frozen=True, slots=True)
class Instruction:
    """`keyword` is in capitals; `rest` is one line."""

    keyword: str
    rest: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.rest)


@dataclass(slots=True)
class Stage:
    """The result of the steps so far. `said` holds the instructions that only describe: USER, CMD, …"""

    root: Path
    environment: dict[str, str]
    directory: Path
    said: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    installs_anew: bool = False

    def inside(self, text: str) -> str:
        """`text` with its absolute paths below `root`."""
        return _ABSOLUTE.sub(f"{self.root}/", text)

    def path(self, text: str) -> Path:
        return self.directory / self.inside(text)

    @property
    def user(self) -> tuple[int, int]:
        """The user id and the group id, which are numbers in the Dockerfile."""
        user, group = self.said["USER"].split(":")
        return int(user), int(group)

    @property
    def start(self) -> list[str]:
        """The command of a container."""
        return [*json.loads(self.said["ENTRYPOINT"]), *json.loads(self.said["CMD"])]

    @property
    def health_check(self) -> list[str]:
        command: list[str] = json.loads(self.said["HEALTHCHECK"].partition(" CMD ")[2])
        return command


def instructions(dockerfile: Path) -> list[Instruction]:
    lines = [line for line in dockerfile.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(keyword, rest) for keyword, _, rest in (line.partition(" ") for line in joined.splitlines())]


def build(
    dockerfile: Path, place: Path, arguments: Mapping[str, str] | None = None, installs_anew: bool = False
) -> Stage:
    """Run the steps of `dockerfile`, with its directory as the context; `place` is an empty directory for the stages.

    Every stage is made in the same directory, where what it installs can then stay. Raises AssertionError with what a
    step has said that failed.
    """
    stages: dict[str, Path] = {}
    stage, name = _base_image(place / "root"), ""
    for number, instruction in enumerate(instructions(dockerfile)):
        if instruction.keyword == "FROM" and number:
            stages[name] = stage.root.rename(place / f"stage-{name}")
            stage = _base_image(place / "root")
        if instruction.keyword == "FROM":
            stage.arguments |= arguments or {}
            stage.installs_anew = installs_anew
            name = instruction.rest.partition(" AS ")[2]
        else:
            _follow(instruction, stage, dockerfile.parent, stages)
    return stage


def _follow(step: Instruction, stage: Stage, context: Path, stages: dict[str, Path]) -> None:
    match step.keyword:
        case "RUN":
            _run(stage, Template(step.rest).safe_substitute(stage.arguments))
        case "ARG":
            name, _, default = step.rest.partition("=")
            stage.arguments.setdefault(name, default)
        case "LABEL":
            for name, value in (word.split("=", 1) for word in step.words):
                stage.labels[name] = Template(value).substitute(stage.arguments)
        case "COPY":
            _copy(stage, step.words, context, stages)
        case "ENV":
            for name, value in (word.split("=", 1) for word in step.words):
                stage.environment[name] = stage.inside(value).replace("$PATH", stage.environment["PATH"])
        case "WORKDIR":
            stage.directory = stage.path(step.rest)
            stage.directory.mkdir(parents=True, exist_ok=True)
        case "USER" | "VOLUME" | "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
            stage.said[step.keyword] = step.rest
        case _:
            raise AssertionError(f"nobody knows how to follow {step}")


def _has_packages(words: list[str]) -> None:
    """The base image is this machine: what is installed there has to be here, and is not installed by a test."""
    installed = words[words.index("install") + 1 :]
    for package in installed[: installed.index("&&")]:
        if not package.startswith("-"):
            require(package, shutil.which(package) is not None, f"Debian's package is {package}")


def _run(stage: Stage, command: str) -> None:
    if command.startswith("apt-get "):
        _has_packages(shlex.split(command))
        return
    if (step := _INSTALLS_THE_LOCK.fullmatch(command)) and not stage.installs_anew:
        pinned = _pinned(stage.path(step[2]))
        if installed := _installed_here(pinned):
            _install_from_here(installed, Path(stage.inside(step[1])))
            return
    handed_on = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)}
    done = subprocess.run(
        ["/bin/sh", "-c", stage.inside(command)],
        cwd=stage.directory,
        env={**handed_on, **stage.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_STEP_S,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout.decode(errors='replace')[-3000:]}"


def _pinned(lock: Path) -> list[Requirement]:
    """What a lock file lists for this Python."""
    lines = lock.read_text().replace("\\\n", " ").splitlines()
    listed = [Requirement(line.partition(" --hash")[0]) for line in lines if line[:1].isalnum()]
    return [each for each in listed if each.marker is None or each.marker.evaluate()]


def _installed_here(pinned: list[Requirement]) -> list[importlib.metadata.Distribution]:
    """The distributions of this Python that a lock lists; none of them if one is missing or has another version."""
    found = []
    for requirement in pinned:
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            return []
        if not distribution.files or not requirement.specifier.contains(distribution.version, prereleases=True):
            return []
        found.append(distribution)
    return found


def _install_from_here(distributions: list[importlib.metadata.Distribution], environment: Path) -> None:
    """Copy them with their compiled modules into another virtual environment."""
    here = Path(sys.prefix)
    for distribution in distributions:
        for file in distribution.files or []:
            source = Path(os.path.normpath(str(file.locate())))
            target = environment / source.relative_to(here)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            if target.parent.name == "bin":
                ours, theirs = (str(each / "bin").encode() for each in (here, environment))
                target.write_bytes(target.read_bytes().replace(b"#!" + ours, b"#!" + theirs, 1))


def _copy(stage: Stage, words: list[str], context: Path, stages: dict[str, Path]) -> None:
    origin = context
    if words[0].startswith("--from="):
        origin = stages[words.pop(0).removeprefix("--from=")]
    *sources, destination = words
    target = stage.path(destination)
    for source in sources:
        found = origin / source.lstrip("/")
        if found.is_dir():
            ignore, copy = (_NOT_SENT, shutil.copy2) if origin is context else (None, os.link)
            shutil.copytree(found, target, symlinks=True, ignore=ignore, copy_function=copy)
        else:
            into = target / found.name if destination.endswith("/") else target
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, into)


def _base_image(root: Path) -> Stage:
    """This machine's Python with only its standard library."""
    local, version = root / "usr" / "local", f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix)
    shutil.copytree(base / "lib" / version, local / "lib" / version, ignore=_NOT_OF_PYTHON)
    for library in (base / "lib").glob("libpython*"):
        shutil.copy(library, local / "lib")
    (local / "bin").mkdir()
    shutil.copy(sys.executable, local / "bin" / "python3")
    _look_beside_itself(local / "bin" / "python3", base / "lib")
    return Stage(root, {"PATH": f"{local / 'bin'}:/usr/bin:/bin"}, root)


def _look_beside_itself(program: Path, libraries: Path) -> None:
    """Patch a program's library path, which only root may read, so that it uses `../lib` beside itself."""
    built_for = bytes(libraries)
    relative = b"$ORIGIN/../lib".ljust(len(built_for), b"\0")
    if len(relative) == len(built_for):
        program.write_bytes(program.read_bytes().replace(b"\0" + built_for + b"\0", b"\0" + relative + b"\0"))
