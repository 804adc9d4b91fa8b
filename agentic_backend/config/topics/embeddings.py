"""The setting `embeddings`: the models that make vectors of texts."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agentic_backend.config.setting_types import PROVIDER_MODEL, ClassPath, Seconds, Section
from agentic_backend.config.yaml.validation_problems import rule_broken


class EmbeddingSettings(Section):
    model: str | None = Field(
        None,
        pattern=f"^{PROVIDER_MODEL}$",
        json_schema_extra={"expected": "a model such as 'openai:text-embedding-3-small'"},
        description="`provider:model` as in LangChain's `init_embeddings`.",
    )
    class_path: ClassPath | None = Field(
        None, description="In place of `model`, `module:name` of a class of LangChain's `Embeddings`."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="What else the model is made with, such as `dimensions`; keys belong into the environment.",
    )
    batch_texts: Annotated[int, Field(ge=1, le=512)] = Field(64, description="Most texts of one call.")
    batch_characters: Annotated[int, Field(ge=1_000, le=1_000_000)] = Field(
        100_000, description="Most characters of all texts of one call; a text that is longer is refused."
    )
    timeout_s: Seconds = Field(30, description="How long one call may take with all its tries, in seconds.")

    @model_validator(mode="after")
    def _is_one_of_the_two(self) -> Self:
        if (self.model is None) == (self.class_path is None):
            raise rule_broken("one of 'model' and 'class_path' is needed, and not both", "model")
        return self
