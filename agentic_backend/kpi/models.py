"""Calls of chat models: how long they take, what they use and cost, after OpenTelemetry's GenAI conventions."""

from agentic_backend.kpi.registry import BegunAt, BoundedNames, MetricsRegistry, age_of_oldest

# The buckets for tokens that OpenTelemetry's GenAI conventions recommend.
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)


class ModelMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._names = BoundedNames()
        self._duration = metrics.histogram(
            "chat_gen_ai_client_operation_duration_seconds",
            "Calls of chat models.",
            "gen_ai_operation_name",
            "gen_ai_response_model",
            "error_type",
        )
        self._tokens = metrics.histogram(
            "chat_gen_ai_client_token_usage",
            "Tokens that a call of a chat model used.",
            "gen_ai_token_type",
            "gen_ai_response_model",
            buckets=_TOKENS,
        )
        self._running = metrics.gauge("chat_running_model_calls", "Calls of chat models that have not ended.")
        self._oldest = metrics.gauge(
            "chat_oldest_model_call_seconds", "For how long the oldest of these has run.", together="max"
        )
        self._cost = metrics.counter("chat_model_cost", "What calls of chat models have cost.", "model", "currency")

    def at_work(self, began_at: BegunAt) -> None:
        self._running.set_function(lambda: len(began_at()))
        self._oldest.set_function(lambda: age_of_oldest(began_at))

    def called(self, model: str, duration_s: float, *, tokens: tuple[int, ...] | None, error: str) -> None:
        """`tokens` begins with the input and the output tokens; `error` is the exception's type, or empty."""
        model = self._names.label(model)
        self._duration.labels("chat", model, error).observe(duration_s)
        for kind, count in zip(("input", "output"), tokens or (), strict=False):
            self._tokens.labels(kind, model).observe(count)

    def cost(self, model: str, currency: str, amount: float) -> None:
        """A call of a model has cost so much, by the prices of the settings."""
        self._cost.labels(self._names.label(model), currency).inc(amount)
