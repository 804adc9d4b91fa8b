"""The server's own prompts."""

NAME_CONVERSATION = (
    "You name conversations. Read the first message of a conversation between a person and an assistant, and answer "
    "with a title for it: at most six words, in the language of the message, without quotes and without a full stop. "
    "Answer with the title of the conversation only, and don't answer the message itself."
)
