"""Arguments of LangChain's middleware whose work has no bound. Agents of the database may not have them. Pure."""

from collections.abc import Iterator
from string import Formatter

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.catalog.entry_references import Reference

_DETECTOR = (
    "agents of the database give no regular expression: some take so long on a text that the server stands still. "
    "Name one of LangChain's kinds as 'pii_type', or a middleware as 'module:name'"
)
_TEMPLATE = (
    "agents of the database give a prompt with one '{messages}' and nothing else in braces; a brace itself is '{{'"
)


def unbounded_arguments(settings: AgentSettings) -> Iterator[Reference]:
    """Each such argument's place in the entry, and why it is none."""
    for index, use in enumerate(settings.middleware):
        if use.name == "PIIMiddleware" and use.args.get("detector") is not None:
            yield ("middleware", index, "args", "detector"), _DETECTOR
        template = use.args.get("summary_prompt")
        if use.name == "SummarizationMiddleware" and template is not None and not _is_plain(template):
            yield ("middleware", index, "args", "summary_prompt"), _TEMPLATE


def _is_plain(template: object) -> bool:
    """Whether `str.format` puts in the messages once at most, as they are: a width alone can take all memory."""
    if not isinstance(template, str):
        return False
    try:
        fields = [field[1:] for field in Formatter().parse(template) if field[1] is not None]
    except ValueError:
        return False
    return fields in ([], [("messages", "", None)])
