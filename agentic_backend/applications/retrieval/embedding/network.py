"""Network: the model's layers, described in ONNX and computed by ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from agentic_backend.applications.retrieval.embedding.weights import Floats, Weights, from_blocks

# Operators that ONNX Runtime has beside those of ONNX.
_OWN = "com.microsoft"
_OPERATORS = {"": 21, _OWN: 1}
_FORMAT = 10
# Whole numbers of 7 bits, with a sign: of 8 bits, sums overflow on processors without VNNI, which then compute others.
_LARGEST = 63


class Network:
    """Computes one list of tokens at a time, on the thread that asks; any number of threads may."""

    def __init__(self, weights: Weights) -> None:
        self._begin, self._end = weights.begin, weights.end
        self.longest = weights.longest - 2
        """The most tokens of one list."""
        self._words = weights.blocks("emb.word", weights.width)
        positions = weights.vector("emb.pos").reshape(-1, weights.width)
        self._positions = positions + weights.vector("emb.type").reshape(-1, weights.width)[0]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # It would keep the memory of the longest list.
        options.enable_cpu_mem_arena = False
        described = _Description(weights).model.SerializeToString()
        self._session = onnxruntime.InferenceSession(described, options, providers=["CPUExecutionProvider"])

    def mean_of(self, tokens: list[int]) -> Floats:
        """The mean of what the last layer makes of the tokens, and of those that begin and end them: 384 numbers."""
        placed = [self._begin, *tokens, self._end]
        embedded = from_blocks(self._words[placed]) + self._positions[: len(placed)]
        [means] = self._session.run(None, {"embedded": embedded[np.newaxis]})
        mean: Floats = means[0]
        return mean


class _Description:
    """The layers as a model of ONNX; matrices are of whole numbers, with a scale for each column."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        state = self._normalised("LayerNormalization", ["embedded"], "emb.ln")
        for layer in range(weights.layers):
            state = self._layer(state, f"l{layer}.")
        axes = self._constant("axes", np.array([1], "i8"))
        mean = self._node("ReduceMean", [state, axes], "mean", keepdims=0)
        shape = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self._nodes,
            "multilingual-e5-small",
            [shape("embedded", onnx.TensorProto.FLOAT, [1, "tokens", weights.width])],
            [shape(mean, onnx.TensorProto.FLOAT, [1, weights.width])],
            self._constants,
        )
        operators = [onnx.helper.make_opsetid(domain, version) for domain, version in _OPERATORS.items()]
        self.model = onnx.helper.make_model(graph, opset_imports=operators, ir_version=_FORMAT)

    def _layer(self, state: str, layer: str) -> str:
        width, inner_width = self._weights.width, self._weights.inner_width
        parts = [layer + name for name in "qkv"]
        together = self._multiplied(state, parts, width)
        self._nodes.append(onnx.helper.make_node("Split", [together], parts, axis=-1, num_outputs=3))
        heads = self._weights.heads
        seen = self._node("MultiHeadAttention", parts, f"{layer}seen", domain=_OWN, num_heads=heads)
        seen = self._multiplied(seen, [f"{layer}ao"], width)
        state = self._normalised("SkipLayerNormalization", [state, seen], f"{layer}aln", domain=_OWN)
        inner = self._multiplied(state, [f"{layer}fi"], width)
        inner = self._node("Gelu", [inner], f"{layer}inner", domain=_OWN)
        inner = self._multiplied(inner, [f"{layer}fo"], inner_width)
        return self._normalised("SkipLayerNormalization", [state, inner], f"{layer}oln", domain=_OWN)

    def _multiplied(self, state: str, names: list[str], width: int) -> str:
        """The state by matrices side by side, plus their biases."""
        matrix = np.concatenate([self._weights.matrix(f"{name}.w", width) for name in names]).T
        bias = np.concatenate([self._weights.vector(f"{name}.b") for name in names])
        scales = np.abs(matrix).max(axis=0) / _LARGEST
        whole = np.rint(matrix / scales).astype("i1")
        output = f"{'+'.join(names)}.out"
        constants = {"whole": whole, "scales": scales, "zeros": np.zeros(len(scales), "i1"), "bias": bias}
        inputs = [self._constant(f"{output}.{name}", value) for name, value in constants.items()]
        return self._node("DynamicQuantizeMatMul", [state, *inputs], output, domain=_OWN)

    def _normalised(self, operator: str, states: list[str], name: str, **attributes: Any) -> str:
        inputs = [self._constant(f"{name}.{part}", self._weights.vector(f"{name}.{part}")) for part in "wb"]
        return self._node(operator, [*states, *inputs], name, epsilon=self._weights.epsilon, **attributes)

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name
