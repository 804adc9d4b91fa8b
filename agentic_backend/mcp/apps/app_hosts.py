"""The hosts that a UI resource may load from and talk to: what it declares (`_meta.ui.csp`), as far as its server's
settings allow it. Pure.

A host is an origin, as `https://cdn.example.org`, or all names below one, as `https://*.example.org`. Only hosts of
this form get into a policy, so nothing that a server says can add to it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from agentic_backend.config.setting_types import APP_HOST

CSP: Mapping[str, tuple[str, ...]] = {
    "connectDomains": ("connect-src",),
    "resourceDomains": ("script-src", "style-src", "img-src", "font-src", "media-src"),
    "frameDomains": ("frame-src",),
    "baseUriDomains": ("base-uri",),
}
"""The directives of a content security policy that each kind of hosts is for."""

MOST_HOSTS = 20
"""Of each kind."""
_LONGEST_HOST = 100

_ALWAYS: Mapping[str, str] = {
    "default-src": "",
    "script-src": "'unsafe-inline'",
    "style-src": "'unsafe-inline'",
    "img-src": "data: blob:",
    "font-src": "data:",
    "media-src": "data: blob:",
    "base-uri": "",
    "form-action": "",
    "frame-ancestors": "'self'",
    "sandbox": "allow-scripts allow-forms",
}
"""What every frame may do, with hosts or without. Nothing that is empty is allowed."""
_NONE = "'none'"
_APP_HOST = re.compile(APP_HOST)
_DEFAULT_PORTS = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}


def host_of(text: object) -> str | None:
    """A host in the one form in which hosts are compared; None if it is none."""
    # Lower case makes ASCII of some other letters.
    if not isinstance(text, str) or len(text) > _LONGEST_HOST or not text.isascii():
        return None
    host = text.lower().removesuffix("/")
    if _APP_HOST.fullmatch(host) is None:
        return None
    return host.removesuffix(_DEFAULT_PORTS[host.partition(":")[0]])


def declared_hosts(csp: object) -> tuple[dict[str, list[str]], int]:
    """The hosts of each kind that a UI resource declares, and how many more that are none, or too many."""
    found, others = dict[str, list[str]](), 0
    for kind in CSP:
        told = csp.get(kind) if isinstance(csp, dict) else None
        given = told if isinstance(told, list) else [] if told is None else [told]
        hosts = dict.fromkeys(host for each in given[:MOST_HOSTS] if (host := host_of(each)) is not None)
        others += sum(host_of(each) is None for each in given[:MOST_HOSTS]) + len(given[MOST_HOSTS:])
        if hosts:
            found[kind] = list(hosts)
    return found, others


def allowed_hosts(declared: Mapping[str, Sequence[str]], allowed: Sequence[str]) -> dict[str, list[str]]:
    """What is declared and allowed, by kind: of two hosts of which one covers the other, the narrower."""
    known = [host for each in allowed if (host := host_of(each)) is not None]
    found = {kind: list(_common(declared.get(kind, ()), known)) for kind in CSP}
    return {kind: hosts for kind, hosts in found.items() if hosts}


def lacking_hosts(declared: Mapping[str, Sequence[str]], allowed: Sequence[str]) -> list[str]:
    """The declared hosts that are not allowed, or only in part."""
    given = allowed_hosts(declared, allowed)
    return list(
        dict.fromkeys(host for kind, hosts in declared.items() for host in hosts if host not in given.get(kind, ()))
    )


def frame_policy(hosts: Mapping[str, Sequence[str]] | None = None) -> str:
    """The content security policy of a frame whose document may use these `hosts`, as `allowed_hosts` gives them."""
    sources = {directive: [given] if given else [] for directive, given in _ALWAYS.items()}
    for kind, found in (hosts or {}).items():
        for directive in CSP[kind]:
            sources.setdefault(directive, []).extend(found)
    return "; ".join(f"{directive} {' '.join(given or [_NONE])}" for directive, given in sources.items())


def _common(declared: Iterable[str], allowed: Iterable[str]) -> dict[str, None]:
    pairs = [(one, other) for one in declared for other in allowed]
    narrower = (one if _covers(other, one) else other if _covers(one, other) else None for one, other in pairs)
    return dict.fromkeys(host for host in narrower if host is not None)


def _covers(wide: str, narrow: str) -> bool:
    if wide == narrow:
        return True
    before, star, after = wide.partition("*")
    return bool(star) and narrow.startswith(before) and narrow.endswith(after)
