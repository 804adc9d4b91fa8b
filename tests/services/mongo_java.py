"""mongo-java-server, which Maven fetches: MongoDB's wire protocol in memory, concurrent, each change atomic."""

import shutil
from pathlib import Path

from services.cache import cached, run, version_of
from services.program import Program
from support.services import require

_SOURCE = Path(__file__).parent / "mongo_java"
_FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_FETCH_S, _BUILD_S = 600, 60
# With the quick compiler it starts in half the time.
_JAVA = (
    "java",
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dslf4j.internal.verbosity=ERROR",
)


class MongoJava(Program):
    """A server that keeps its data in memory only."""

    def __init__(self) -> None:
        """Skips or fails the test if the server can't be built (see `require`)."""
        built = mongo_java_build()
        super().__init__(*_JAVA, "-cp", f"{built}:{built / 'libraries'}/*", "Main")


def mongo_java_build() -> Path:
    """The directory of its classes. Skips or fails the test if it can't be built (see `require`)."""
    return cached("mongo-java", version_of(_SOURCE / "pom.xml", _SOURCE / "Main.java"), _build)


def _build(directory: Path) -> None:
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    require("mongo-java-server", not missing, f"there is no `{'`, no `'.join(missing)}` to fetch and build it")
    libraries = directory / "libraries"
    pom = ["-f", str(_SOURCE / "pom.xml"), f"-DoutputDirectory={libraries}", "-DincludeScope=runtime"]
    failure = run(["mvn", "-q", "-B", "--strict-checksums", _FETCH, *pom], _FETCH_S)
    require("mongo-java-server", failure is None, f"{failure}")
    failure = run(["javac", "-cp", f"{libraries}/*", "-d", str(directory), str(_SOURCE / "Main.java")], _BUILD_S)
    require("mongo-java-server", failure is None, f"{failure}")
