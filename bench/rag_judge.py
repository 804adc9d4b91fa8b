"""How well the judge tells supported sentences from others, on the labelled ones, and how long it takes.

`python rag_judge.py`: some seconds. Recall is the share of the unsupported sentences that it finds, a false alarm a
supported one that it takes for unsupported. `--mistakes` lists those of the half that it was tuned on.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from applications.retrieval.judged_sentences import LabelledSentence, labelled_sentences
from figures import median

from agentic_backend.applications.retrieval.judging.judge import JudgedSentence, judge

ROUNDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mistakes", action="store_true")
    mistakes = parser.parse_args().mistakes
    judged = [(sentence, _judged(sentence)) for sentence in labelled_sentences()]
    if mistakes:
        for sentence, found in judged:
            if not sentence.held_out and found.supported != sentence.supported:
                label = "supported" if sentence.supported else "unsupported"
                print(f"{label}, {sentence.kind}: {found.score:.2f} {found.reason}: {sentence.text}")
        return
    print("| sentences | half | unsupported | recall | supported | false alarms |\n|---|---|---|---|---|---|")
    for held_out in (False, True):
        half = [each for each in judged if each[0].held_out == held_out]
        for name, of in (
            ("all", half),
            ("same language", [each for each in half if not each[0].across]),
            ("across languages", [each for each in half if each[0].across]),
            *((code, [each for each in half if each[0].language == code]) for code in ("en", "de", "fr")),
        ):
            print(f"| {name} | {'held out' if held_out else 'tuned on'} | {_row(of)} |")
    answer, passages = _long_answer(judged)
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        judge(answer, passages)
        times.append(time.process_time() - start)
    print(f"\n{len(answer.split())} words against {len(passages)} passages: {median(times) * 1000:.0f} ms")


def _judged(sentence: LabelledSentence) -> JudgedSentence:
    cited = "".join(f"[{number}]" for number in sentence.passages)
    return judge(f"{sentence.text} {cited}", sentence.passages).sentences[0]


def _row(judged: Sequence[tuple[LabelledSentence, JudgedSentence]]) -> str:
    columns = []
    for supported in (False, True):
        of = [found.supported for sentence, found in judged if sentence.supported == supported]
        columns += [str(len(of)), f"{of.count(False) / len(of):.3f}"]
    return " | ".join(columns)


def _long_answer(judged: Sequence[tuple[LabelledSentence, JudgedSentence]]) -> tuple[str, dict[int, str]]:
    """An answer of some 2,000 words without citations, which is judged against all of ten passages."""
    texts = list(dict.fromkeys(text for sentence, _ in judged for text in sentence.passages.values()))
    words = " ".join(sentence.text for sentence, _ in judged).split()[:2_000]
    return " ".join(words), dict(enumerate((f"{texts[at]} {texts[at + 10]}" for at in range(10)), 1))


if __name__ == "__main__":
    main()
