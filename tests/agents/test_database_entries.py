"""What an entry of the database may not name is told at its place, whatever else is wrong with it."""

from agentic_backend.agents.catalog.allowed_code import AllowedCode
from agentic_backend.agents.catalog.database_entries import DatabaseEntries

ENTRIES = DatabaseEntries(AllowedCode(["shop.*"]), ["default"], [], {})
FORBIDDEN = """\
class_path: evil.agents.Agent
tools:
- current_time
- shop:find
- os:system
middleware:
- {name: ModelRetryMiddleware}
- name: evil.words:Middleware
limits: none
"""


def test_code_that_it_may_not_name_is_told_at_its_place_beside_other_mistakes() -> None:
    read = ENTRIES.read(FORBIDDEN, [])
    told = [str(problem).partition(" is not among")[0] for problem in read.problems if " is not among" in str(problem)]
    assert told == [
        "database::1:13: class_path: 'evil.agents:Agent'",
        "database::5:3: tools[2]: 'os:system'",
        "database::8:9: middleware[1].name: 'evil.words:Middleware'",
    ]
    assert read.forbidden == ["evil.agents:Agent", "os:system", "evil.words:Middleware"]
    assert any("limits" in str(problem) for problem in read.problems)
