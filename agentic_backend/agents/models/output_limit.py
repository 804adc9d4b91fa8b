"""Limits what a model writes, by the field of its provider's class that says so."""

from langchain_core.language_models import BaseChatModel

# What providers' classes call it. Among arguments of a call the names differ more, so a field is set.
_FIELDS = ("max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "num_predict")
# Providers count the tokens of a model's thoughts too, of which a short answer may need many. A model that nothing is
# known of may think; it may have a small context window as well.
_THOUGHTS, _PERHAPS_THOUGHTS = 16_384, 4_096


def with_output_limit(model: BaseChatModel, tokens: int) -> BaseChatModel:
    """`model`, whose provider ends each answer after `tokens` tokens, and more only for what it may think before.

    The model's own limit stays if it is lower. A model whose class has no such field is returned as it is.
    """
    field = next((name for name in _FIELDS if name in type(model).model_fields), None)
    if field is None:
        return model
    own = getattr(model, field)
    limit = tokens + _room_for_thoughts(model)
    # Some say with 0 or -1 that there is no limit.
    if isinstance(own, int) and 0 < own <= limit:
        return model
    return model.model_copy(update={field: limit})


def _room_for_thoughts(model: BaseChatModel) -> int:
    profile = model.profile or {}
    thinks = profile.get("reasoning_output")
    if thinks is False:
        return 0
    room = _THOUGHTS if thinks else _PERHAPS_THOUGHTS
    window = profile.get("max_input_tokens")
    if isinstance(window, int) and window > 0:
        room = min(room, window // 4)
    # A provider refuses a limit below the budget that the model's options have.
    return max(room, _budget(model))


def _budget(model: BaseChatModel) -> int:
    thinking = getattr(model, "thinking", None)
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else getattr(model, "thinking_budget", None)
    return budget if isinstance(budget, int) else 0
