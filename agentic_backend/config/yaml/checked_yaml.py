"""Reads a YAML file as a model, whose every error names its place in the file."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agentic_backend.config.yaml.located_yaml import ConfigError, read_yaml
from agentic_backend.config.yaml.validation_problems import validation_problems

M = TypeVar("M", bound=BaseModel)


def checked_yaml(path: Path, model: type[M]) -> M:
    """The mapping in the file, as this model; a validator of it raises `rule_broken` for a rule across fields.

    Raises ConfigError, each of whose problems has the file, the line and the column, counted from 1.
    """
    read = read_yaml(path)
    problems = [flaw for _, flaw in read.flaws]
    try:
        checked = model.model_validate(read.values)
    except ValidationError as error:
        raise ConfigError([*problems, *validation_problems(error, model, read.problem)]) from error
    if problems:
        raise ConfigError(problems)
    return checked
