"""The hooks, the chores, the workers and the embedder that an application declares, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain.agents.middleware import AgentMiddleware

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.models.worker_embedder import WorkerEmbedder
from agentic_backend.application import Chore, Hook
from agentic_backend.hosting.declarations import NAME_RULE, first_broken, is_name, is_title, listed
from agentic_backend.hosting.declared_calls import is_async_method, is_number, line_of
from agentic_backend.policy.hook_context import Point
from agentic_backend.worker_processes.worker import LONGEST_CALL_S, Worker, is_time, rules_of

_MOST, _MOST_WORKERS, _MOST_MIDDLEWARE = 50, 8, 10
_LONGEST_HOOK_S, _LONGEST_CHORE_S, _LONGEST_REST_S = 60, 50, 86_400

Work = TypeVar("Work", Hook, Chore)


@dataclass(frozen=True, slots=True)
class DeclaredHook:
    """A hook whose declaration is sound."""

    name: str
    point: Point
    work: Callable[..., Any]
    agents: Literal["shipped", "tuned", "all"]
    timeout_s: float
    on_failure: Literal["continue", "block"]
    priority: int


@dataclass(frozen=True, slots=True)
class DeclaredChore:
    """A chore whose declaration is sound."""

    name: str
    work: Callable[..., Any]
    every_s: float
    timeout_s: float


def declared_hooks(application_id: str, hooks: object) -> list[DeclaredHook]:
    """The hooks that `Application.hooks` has answered. Raises ClassPathError."""
    declared = []
    for hook in _listed("hooks", hooks, Hook):
        rules = {
            "the point has to be a Point": type(hook.point) is Point,
            f"timeout_s has to be more than 0 and at most {_LONGEST_HOOK_S}": is_time(hook.timeout_s, _LONGEST_HOOK_S),
            "on_failure has to be 'continue' or 'block'": type(hook.on_failure) is str
            and hook.on_failure in ("continue", "block"),
            "agents has to be 'shipped', 'tuned' or 'all'": type(hook.agents) is str
            and hook.agents in ("shipped", "tuned", "all"),
            "the priority has to be from 1 to 99": type(hook.priority) is int and 1 <= hook.priority <= 99,
        }
        _keep("hook", hook, rules)
        name = f"{application_id}:{hook.work.__name__}"
        declared.append(
            DeclaredHook(
                name,
                hook.point,
                hook.work,
                hook.agents,
                float(hook.timeout_s),
                hook.on_failure,
                hook.priority,
            )
        )
    _require_own_names("hook", [each.name for each in declared])
    return declared


def declared_middleware(middleware: object, is_tuned: bool) -> Sequence[AgentMiddleware[Any, Any, Any]]:
    """What `Application.middleware` has answered. Raises ClassPathError."""
    found: list[Any] = list(middleware) if isinstance(middleware, list | tuple) else [middleware]
    if len(found) > _MOST_MIDDLEWARE or not all(isinstance(each, AgentMiddleware) for each in found):
        raise ClassPathError(
            f"'middleware' has to answer a list of at most {_MOST_MIDDLEWARE} of class AgentMiddleware"
        )
    if found and not is_tuned:
        raise ClassPathError("'middleware' is for agents whose entries speak to the application: it needs a 'Tuning'")
    if len({each.name for each in found}) < len(found):
        raise ClassPathError("two of its 'middleware' have the same name")
    return found


def declared_chores(application_id: str, chores: object) -> list[DeclaredChore]:
    """The chores that `Application.chores` has answered. Raises ClassPathError."""
    declared = []
    for chore in _listed("chores", chores, Chore):
        rules = {
            f"every_s has to be from 1 to {_LONGEST_REST_S}": is_number(chore.every_s)
            and 1 <= chore.every_s <= _LONGEST_REST_S,
            f"timeout_s has to be more than 0 and at most {_LONGEST_CHORE_S}": is_time(
                chore.timeout_s, _LONGEST_CHORE_S
            ),
        }
        _keep("chore", chore, rules)
        name = f"{application_id}:{chore.work.__name__}"
        declared.append(DeclaredChore(name, chore.work, float(chore.every_s), float(chore.timeout_s)))
    _require_own_names("chore", [each.name for each in declared])
    return declared


def declared_workers(workers: object) -> Sequence[Worker]:
    """The workers that `Application.workers` has answered. Raises ClassPathError."""
    found = listed("'workers' has to answer", workers, Worker, _MOST_WORKERS)
    for worker in found:
        rules = {
            NAME_RULE: is_name(worker.name),
            **rules_of(worker),
            "another worker has this name": [each.name for each in found].count(worker.name) == 1,
        }
        if (rule := first_broken(rules)) is not None:
            raise ClassPathError(f"the worker {worker.name!r}: {rule}")
    return found


def declared_embedder(embedder: object, workers: Sequence[Worker]) -> WorkerEmbedder | None:
    """What `Application.embedder` has answered, beside its workers. Raises ClassPathError."""
    if embedder is None:
        return None
    if type(embedder) is not WorkerEmbedder:
        raise ClassPathError("'embedder' has to answer a WorkerEmbedder, or None")
    rules = {
        "the model has to be a text of at most 100 characters, all of which are seen": is_title(embedder.model),
        "there is no such worker": any(worker.name == embedder.worker for worker in workers),
        "the method has to be a name": type(embedder.method) is str and embedder.method.isidentifier(),
        "batch_texts has to be from 1 to 512": type(embedder.batch_texts) is int and 1 <= embedder.batch_texts <= 512,
        "batch_characters has to be from 1000 to 1000000": type(embedder.batch_characters) is int
        and 1_000 <= embedder.batch_characters <= 1_000_000,
        f"timeout_s has to be more than 0 and at most {LONGEST_CALL_S}": is_time(embedder.timeout_s, LONGEST_CALL_S),
    }
    if (rule := first_broken(rules)) is not None:
        raise ClassPathError(f"the embedder {embedder.model!r}: {rule}")
    return embedder


def _listed(what: str, found: object, kind: type[Work]) -> Sequence[Work]:
    if not isinstance(found, list | tuple) or len(found) > _MOST or not all(isinstance(each, kind) for each in found):
        raise ClassPathError(f"{what!r} has to answer a list of at most {_MOST} of class {kind.__name__}")
    for each in found:
        if not is_async_method(each.work):
            raise ClassPathError(f"{what!r} has to answer with async methods, each as 'work'")
    return found


def _keep(what: str, work: Hook | Chore, rules: dict[str, bool]) -> None:
    if (rule := first_broken(rules)) is not None:
        raise ClassPathError(f"the {what} {work.work.__name__!r}{line_of(work.work)}: {rule}")


def _require_own_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ClassPathError(f"two {what}s are the method {name.rpartition(':')[2]!r}")
