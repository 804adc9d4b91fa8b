"""The panels that an application declares, checked, with their documents."""

import inspect
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.parts import PartKind
from agentic_backend.application import Application, Panel
from agentic_backend.hosting.declarations import (
    NAME_RULE,
    ROLES_RULE,
    are_roles,
    first_broken,
    is_name,
    is_title,
    listed,
)
from agentic_backend.hosting.declared_calls import prefix_of
from agentic_backend.hosting.declared_parts import part_name
from agentic_backend.transports.calls.users.info_api import PanelView

_FILE = re.compile(r"[\w.-]{1,100}\.html")
_PLACES = ("beside", "instead", "sidebar")
_MAY = frozenset({"ask", "decide", "follow"})
_MOST = 20
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DeclaredPanel:
    """A panel whose declaration is sound."""

    view: PanelView
    document: bytes = field(repr=False)
    roles: frozenset[str]

    def is_for(self, roles: frozenset[str]) -> bool:
        """Whether a user with these roles sees it."""
        return not self.roles or bool(self.roles & roles)


def declared_panels(
    application_id: str, target: type[Application], parts: Sequence[PartKind[Any]], previews: Collection[str] = ()
) -> Sequence[DeclaredPanel]:
    """The panels that `Application.panels` has; `parts` are the kinds of parts that it declares, `previews` its calls
    that may tell what a link opens.

    Raises ClassPathError, and what reading them raises.
    """
    found: Sequence[Panel] = listed("'panels' has to be", target.panels, Panel, _MOST)
    if not found:
        return ()
    # A subclass has the panels of the class that it is made of.
    folder = Path(inspect.getfile(next(each for each in target.__mro__ if "panels" in vars(each)))).parent
    shown = [id(panel.place) for panel in found if isinstance(panel.place, PartKind)]
    declared = []
    for panel in found:
        rules = {
            NAME_RULE: is_name(panel.name),
            "another panel has this name": [each.name for each in found].count(panel.name) == 1,
            "the title has to be a text of at most 100 characters, all of which are seen": is_title(panel.title),
            "the file has to be the name of an HTML file, such as 'board.html'": type(panel.file) is str
            and _FILE.fullmatch(panel.file) is not None,
            f"the place has to be one of {', '.join(_PLACES)}, or one of 'parts'": any(
                panel.place is kind for kind in parts
            )
            or (type(panel.place) is str and panel.place in _PLACES),
            "another panel shows this kind of part": shown.count(id(panel.place)) < 2,
            f"what it may do is a set of {', '.join(sorted(_MAY))}": type(panel.may) in (frozenset, set)
            and panel.may <= _MAY,
            ROLES_RULE: are_roles(panel.roles),
            "the preview has to be the name of a POST call that answers with a Preview": panel.preview is None
            or (type(panel.preview) is str and panel.preview in previews),
        }
        if (rule := first_broken(rules)) is not None:
            raise ClassPathError(f"the panel {panel.name!r}: {rule}"[:500])
        view = PanelView(
            name=panel.name,
            title=panel.title,
            path=f"{prefix_of(application_id)}/panels/{panel.name}.html",
            place="part" if isinstance(panel.place, PartKind) else panel.place,
            part=part_name(application_id, panel.place) if isinstance(panel.place, PartKind) else None,
            may=sorted(panel.may),
            preview=panel.preview,
        )
        declared.append(DeclaredPanel(view, _document(panel, folder), frozenset(panel.roles)))
    return declared


def _document(panel: Panel, folder: Path) -> bytes:
    try:
        document = (folder / panel.file).read_bytes()
        document.decode()
    except OSError:
        raise ClassPathError(f"the panel {panel.name!r}: there is no file {str(folder / panel.file)!r}") from None
    except UnicodeDecodeError:
        raise ClassPathError(f"the panel {panel.name!r}: {panel.file} is no UTF-8") from None
    if len(document) > _MOST_BYTES:
        raise ClassPathError(f"the panel {panel.name!r}: {panel.file} is larger than {_MOST_BYTES} bytes")
    return document
