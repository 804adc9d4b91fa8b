"""Tokens: texts as the numbers of the vocabulary's pieces, as the model was trained on them."""

import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as descriptions

from agentic_backend.applications.retrieval.embedding.weights import Weights


class Tokens:
    """The vocabulary of XLM-RoBERTa, by SentencePiece."""

    def __init__(self, weights: Weights) -> None:
        self._replacements = weights.replacements
        described = descriptions.ModelProto()
        trainer, normalizer, kinds = described.trainer_spec, described.normalizer_spec, descriptions.ModelProto
        trainer.model_type = descriptions.TrainerSpec.UNIGRAM
        trainer.bos_id, trainer.eos_id, trainer.pad_id = weights.begin, weights.end, weights.padding
        trainer.unk_id = weights.unknown
        trainer.vocab_size = len(weights.pieces)
        normalizer.name = "identity"
        # Spaces are made single before.
        normalizer.remove_extra_whitespaces = False
        # The last piece is the one that stands for hidden words in training.
        control = {weights.begin, weights.end, weights.padding, len(weights.pieces) - 1}
        for place, (piece, score) in enumerate(zip(weights.pieces, weights.scores, strict=True)):
            kind = kinds.SentencePiece.CONTROL if place in control else kinds.SentencePiece.NORMAL
            kind = kinds.SentencePiece.UNKNOWN if place == weights.unknown else kind
            described.pieces.add(piece=piece, score=score, type=kind)
        self._pieces = sentencepiece.SentencePieceProcessor(model_proto=described.SerializeToString())

    def of(self, text: str) -> list[int]:
        """Of any text, without those that begin and end it; spaces around it and beside others don't count."""
        # Letters with accents are often two characters in PDFs, and one in the vocabulary.
        text = unicodedata.normalize("NFC", text).translate(self._replacements)
        tokens: list[int] = self._pieces.encode(" ".join(text.split()))
        return tokens
