"""Which applications a server finds, and what keeps one from serving, with its place."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from support.glossary import PATH, Glossary
from support.hostile_applications import Done
from support.rest_client import plain_http
from support.running_server import running_server

from agentic_backend.application import Application, ApplicationSettings, Call, Frame, User, checked_yaml
from agentic_backend.config.loading import load_layers
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.declared_calls import declared_calls
from agentic_backend.hosting.loading import Applications, load_applications

HOSTILE = "support.hostile_applications:"


def loaded(tmp_path: Path, text: str) -> Applications:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    settings, layers = load_layers(file, {})
    return load_applications(settings.applications, layers.problem_at)


def test_an_application_is_found_by_its_class_path(tmp_path: Path) -> None:
    found = loaded(tmp_path, f"applications:\n  - class_path: {PATH}\n    settings: {{terms: {{ask: A frame.}}}}\n")
    [one] = found.loaded
    assert (one.id, one.title, one.version, found.problems) == ("glossary", "Glossary", "1.2.0", [])
    assert one.application.settings.terms == {"ask": "A frame."}
    assert [call.operation.path for call in one.calls][:2] == ["/apps/glossary/terms", "/apps/glossary/terms/{term}"]


def test_problems_have_their_place_and_keep_no_other_away(tmp_path: Path) -> None:
    text = "\n".join(
        [
            "applications:",
            "  - class_path: support.glossary:Glosary",
            f"  - class_path: {PATH}",
            "    settings: {terms: {}, trems: hunter2}",
            "  - class_path: support.glossary:TERMS_OF_USE",
            f"  - class_path: {HOSTILE}Unimportable",
            f"  - class_path: {HOSTILE}Done",
            f"  - class_path: {HOSTILE}OddSettings",
            f"  - class_path: {PATH}",
            f"  - class_path: {HOSTILE}Again",
            f"  - {{class_path: {HOSTILE}Unimportable, enabled: false}}",
        ]
    )
    found = loaded(tmp_path, text)
    assert [one.id for one in found.loaded] == ["glossary"]
    file = tmp_path / "settings.yaml"
    told = [str(problem).removeprefix(f"{file}:") for problem in found.problems]
    assert [each.split(": ")[0] for each in told] == ["2:17", "4:27", "5:17", "6:17", "7:17", "8:5", "10:17"], told
    assert "did you mean 'Glossary'?" in told[0]
    assert "unknown key 'trems'" in told[1] or "trems" in told[1]
    assert "support/hostile_applications.py:" in told[3] and "SystemExit: not here" in told[3]
    assert "is no subclass of Application" in told[4]
    assert "word" in told[5]
    assert "the id 'glossary' is taken" in told[6]
    assert "hunter2" not in str(told)


def test_the_environment_can_name_applications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIC_APPLICATIONS", f'[{{"class_path": "{PATH}", "settings": {{"other": 1}}}}]')
    [problem] = loaded(tmp_path, "applications: []\n").problems
    assert str(problem).startswith("environment: AGENTIC_APPLICATIONS (applications[0].settings.other): ")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose entry point names the glossary, as `pip install` leaves it."""
    folder = tmp_path / "site"
    about = folder / "acme_words-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-words\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[agentic_backend.applications]\nwords = {PATH}\n")
    monkeypatch.syspath_prepend(folder)
    return about / "entry_points.txt"


def test_an_installed_package_names_its_application(tmp_path: Path, installed: Path) -> None:
    assert [one.id for one in loaded(tmp_path, "{}").loaded] == ["glossary"]
    # An entry changes it or keeps it away, however it spells the path.
    changed = loaded(tmp_path, "applications: [{class_path: support.glossary.Glossary, settings: {terms: {a: b}}}]")
    assert [one.application.settings.terms for one in changed.loaded] == [{"a": "b"}]
    assert loaded(tmp_path, f"applications: [{{class_path: {PATH}, enabled: false}}]").loaded == []
    installed.write_text("[agentic_backend.applications]\nwords = acme.words:Words\n")
    [problem] = loaded(tmp_path, "{}").problems
    assert str(problem).startswith("acme-words: agentic_backend.applications: words: no module named 'acme")


class Wrong(Application):
    async def good(self, user: User) -> Done:
        return Done()

    async def nobody(self) -> Done:
        return Done()

    async def stranger(self, user: str) -> Done:
        return Done()

    async def raw(self, user: User, request: Any) -> Done:
        return Done()

    async def body(self, user: User, body: dict[str, str]) -> Done:
        return Done()

    async def query(self, user: User, query: Frame) -> Done:
        return Done()

    async def part(self, user: User, note: int) -> Done:
        return Done()

    async def extra(self, user: User, *notes: str) -> Done:
        return Done()

    async def untyped(self, user: User, note) -> Done:  # type: ignore[no-untyped-def]
        return Done()

    async def answer(self, user: User) -> dict[str, str]:
        return {}

    def blocking(self, user: User) -> Done:
        return Done()


WRONG = Wrong(None)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (Call("GET", "/x", WRONG.nobody), "no call forgets who calls"),
        (Call("GET", "/x", WRONG.stranger), "no call forgets who calls"),
        (Call("GET", "/x", WRONG.raw), "'request'"),
        (Call("POST", "/x", WRONG.body), "'body' has to be a subclass of Frame"),
        (Call("GET", "/x", WRONG.query), "'query' has to be a subclass of Query"),
        (Call("GET", "/x/{note}", WRONG.part), "the parts of the path are texts"),
        (Call("GET", "/x/{note}", WRONG.good), "differ in its parts"),
        (Call("GET", "/x", WRONG.part), "neither an input nor a part of the path"),
        (Call("GET", "/x/{notes}", WRONG.extra), "'notes' is not given by name"),
        (Call("GET", "/x/{note}", WRONG.untyped), "'note' has no type"),
        (Call("GET", "/x", WRONG.answer), "has to answer with a subclass of Value"),
        (Call("GET", "/x", WRONG.blocking), "is no async method"),  # type: ignore[arg-type]
        (Call("TRACE", "/x", WRONG.good), "the method has to be"),  # type: ignore[arg-type]
        (Call("GET", "x", WRONG.good), "the path has to be like"),
        (Call("GET", "/x/", WRONG.good), "the path has to be like"),
        (Call("GET", "/../admin", WRONG.good), "the path has to be like"),
        (Call("GET", "/{x:path}", WRONG.good), "the path has to be like"),
        (Call("GET", "/openapi.json", WRONG.good), "the path has to be like"),
        (Call("GET", "/x", WRONG.good, status=302), "the status has to be"),
        (Call("GET", "/x", WRONG.good, status=204), "the status has to be"),
        (Call("GET", "/x", partial(WRONG.good)), "is no async method"),
        (Call("GET", "/x", WRONG.good, timeout_s=float("nan")), "timeout_s has to be"),
        (Call("GET", "/x", WRONG.good, timeout_s=601), "timeout_s has to be"),
        (Call("GET", "/x", WRONG.good, roles="editor"), "the roles have to be"),  # type: ignore[arg-type]
        (Call("GET", "/x", WRONG.good, errors=[ValueError]), "classes of the server"),  # type: ignore[list-item]
        (Call("GET", "/x", WRONG.good, at_root=1), "true or false"),  # type: ignore[arg-type]
        *[
            (Call("GET", path, WRONG.good, at_root=True), "the path is the server's own")
            for path in (
                "/agentic/x",
                "/apps/other",
                "/api/chat",
                "/api/chat/{a}",
                "/api/{a}",
                "/{a}",
                "/{a}/b",
                "/static/x",
                "/sessions",
            )
        ],
    ],
)
def test_a_wrong_call_is_refused(call: Call, why: str) -> None:
    with pytest.raises(Exception, match=why.replace("'", ".")) as caught:
        declared_calls("wrong", [call])
    assert "async" in why or f"{Path(__file__).name}:" in str(caught.value)


def test_two_calls_do_not_share_a_place_or_a_name() -> None:
    async def other(user: User, b: str) -> Done:
        return Done()

    async def good(user: User, a: str) -> Done:
        return Done()

    first = Call("GET", "/x/{a}", good)
    with pytest.raises(Exception, match="this method and path"):
        declared_calls("wrong", [first, Call("GET", "/x/{b}", other)])
    with pytest.raises(Exception, match="of this name"):
        declared_calls("wrong", [first, Call("GET", "/y/{a}", good)])
    assert len(declared_calls("right", [first, Call("PUT", "/x/{b}", other)])) == 2


@pytest.mark.parametrize("calls", [None, {"a": 1}, [None], iter(()), ["call"] * 201])
def test_calls_are_a_list_of_calls(calls: Any) -> None:
    with pytest.raises(Exception, match="'calls' has to answer"):
        declared_calls("wrong", calls)


def test_a_document_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Glossary, "__doc__", "word " * 300_000)
    [problem] = load_applications([ApplicationEntry(class_path=PATH)]).problems
    assert "is larger than 1048576 bytes" in str(problem)


def test_a_secret_of_the_settings_is_not_shown(tmp_path: Path) -> None:
    for value in ("12345678", "[12345678]"):
        text = f"applications: [{{class_path: '{HOSTILE}Guarded', settings: {{pin: {value}}}}}]"
        [problem] = loaded(tmp_path, text).problems
        assert "settings.pin" in str(problem) and "12345678" not in str(problem)


def test_broken_metadata_of_packages_keeps_no_application_away(
    tmp_path: Path, installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    installed.write_bytes(b"[agentic_backend.applications]\nwords = \xff\xfe\n")
    assert [one.id for one in loaded(tmp_path, f"applications: [{{class_path: '{PATH}'}}]").loaded] == ["glossary"]
    assert "entry points of packages can't be read" in caplog.text


def test_a_server_without_applications_imports_none() -> None:
    assert load_applications([]) == Applications([], [], [])


class Rooted(Application):
    """Has a door of its own."""

    id, title, version = "rooted", "Rooted", "1"

    def calls(self) -> Sequence[Call]:
        return [Call("POST", "/api/run/{run}", self.run, at_root=True), Call("GET", "/run", self.get_run)]

    async def run(self, user: User, run: str) -> Done:
        return Done(done=f"{run} of {user.id}")

    async def get_run(self, user: User) -> Done:
        return Done(done="below")


class RootedToo(Rooted):
    id = "rooted-too"


async def test_a_call_may_be_at_the_root_where_nobody_else_is(tmp_path: Path) -> None:
    rooted, too = (f"{__name__}:{name}" for name in ("Rooted", "RootedToo"))
    [problem] = loaded(tmp_path, f"applications:\n  - class_path: {rooted}\n  - class_path: {too}\n").problems
    assert "POST /api/run/{run} is also one of the application 'rooted'" in str(problem)
    async with running_server(tmp_path, settings={"applications": [{"class_path": rooted}]}) as server:
        async with plain_http(base_url=server.address, headers={"authorization": "Bearer dev:ann"}) as http:
            async with asyncio.timeout(10):
                while (await http.get("/apps/rooted/run")).status_code != 200:
                    await asyncio.sleep(0.02)
            assert (await http.post("/api/run/one")).json() == {"done": "one of ann"}
            assert (await http.get("/api/run/one")).status_code == 405
            foreign = await http.post("/api/run/one", headers={"origin": "https://evil.example"})
            assert foreign.status_code == 403
            document = (await http.get("/apps/rooted/openapi.json")).json()
            assert set(document["paths"]) == {"/api/run/{run}", "/apps/rooted/run"}


class Motto(BaseModel):
    """What a file of the application below holds."""

    model_config = ConfigDict(extra="forbid")
    words: str


class Mottoes(Application):
    """An application with a file of its own."""

    id = "mottoes"
    title = "Mottoes"
    version = "1.0.0"

    class Settings(ApplicationSettings):
        file: Path

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.motto = checked_yaml(settings.file, Motto)


@pytest.mark.parametrize(
    ("text", "place"),
    [("words: hurry\nword: up\n", "2:1: word: unknown key"), ("words: one\nwords: two\n", "2:1: words: duplicate key")],
)
def test_a_problem_in_a_file_of_its_own_has_its_place_there(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "motto.yaml"
    file.write_text(text)
    entry = ApplicationEntry(class_path=f"{__name__}:Mottoes", settings={"file": str(file)})
    found = load_applications([entry])
    assert not found.loaded and found.refused == [entry.class_path]
    assert str(found.problems[0]).startswith(f"{file}:{place}")
