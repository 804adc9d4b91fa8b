"""Attached images: graphs and their memory hold references to them, and each call of a model gets the pixels.

So no state, checkpoint or trace holds an image, and of several models of a run each gets what it can take: one that
takes no images, or none of this run, is told the image's name. The run's images are in its RuntimeContext.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from agentic_backend.agents.runtime_context import AttachedImage, find_context
from agentic_backend.protocol.parts import attachment_of, attachment_url


def image_block(attachment_id: str, name: str) -> dict[str, Any]:
    """A reference to an image, as LangChain's standard content block."""
    return {"type": "image", "url": attachment_url(attachment_id), "extras": {"filename": name}}


def referred_in(messages: Iterable[Any]) -> list[str]:
    """The ids of the images that the messages refer to, in their order."""
    blocks = (block for message in messages if isinstance(message, BaseMessage) for block in _blocks(message))
    return list(dict.fromkeys(found for block in blocks if (found := _referred(block)) is not None))


def takes_images(model: BaseChatModel) -> bool:
    """Whether the settings, or else LangChain's profile of the model, say that it takes images."""
    return bool((model.profile or {}).get("image_inputs"))


def with_images(model: BaseChatModel, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages as `model` is given them: with the run's images in place of references."""
    if not any(_referred(block) is not None for message in messages for block in _blocks(message)):
        return list(messages)
    context = find_context()
    images = context.images if context is not None and takes_images(model) else {}
    return [_shown(message, images) for message in messages]


def _shown(message: BaseMessage, images: Mapping[str, AttachedImage]) -> BaseMessage:
    if not any(_referred(block) is not None for block in _blocks(message)):
        return message
    content = [_filled(block, images) if isinstance(block, Mapping) else block for block in message.content]
    return message.model_copy(update={"content": content})


def _filled(block: Mapping[str, Any], images: Mapping[str, AttachedImage]) -> Mapping[str, Any]:
    attachment_id = _referred(block)
    if attachment_id is None:
        return block
    image = images.get(attachment_id)
    if image is None:
        extras = block.get("extras")
        name = extras.get("filename", "") if isinstance(extras, Mapping) else ""
        return {"type": "text", "text": f"[The image {name!r} is not shown to you.]"}
    return {"type": "image", "base64": image.base64, "mime_type": image.mime}


def _blocks(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    if not isinstance(message.content, str):
        yield from (block for block in message.content if isinstance(block, Mapping))


def _referred(block: Mapping[str, Any]) -> str | None:
    url = block.get("url") if block.get("type") == "image" else None
    return attachment_of(url) if isinstance(url, str) else None
