"""File descriptors: how many this process may have, and from which number on they are the server's own.

Every connection takes one, and so do the store, Redis, MCP servers, models and files. Where none is left nothing can be
opened, so clients' connections leave a reserve.
"""

import logging

try:
    import resource
except ImportError:  # Windows has no such limit.
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_RESERVE_AT_MOST, _RESERVE_SHARE = 256, 4


def raise_descriptor_limit() -> None:
    """The soft limit becomes the hard one; 1,024, the usual soft one, is for programs that call select()."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # macOS calls the hard limit infinite and refuses it.
        log.info("the limit of file descriptors stays", extra={"limit": soft})


def reserved_descriptors() -> int | None:
    """The first descriptor that clients' connections leave to the server itself; None where there is no limit.

    The kernel gives the lowest number that is free: a connection with this number means that all below it are taken.
    """
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return limit - min(_RESERVE_AT_MOST, limit // _RESERVE_SHARE)
