"""What is sent of a span, to a real receiver."""

from support.otlp_receiver import otlp_receiver

from agentic_backend.config.topics.observability import TracingSettings
from agentic_backend.tracing.exporting import exporting
from agentic_backend.tracing.spans import LONGEST_ATTRIBUTE


async def test_a_text_that_others_have_chosen_is_cut() -> None:
    async with otlp_receiver() as receiver:
        settings = TracingSettings.model_validate({"endpoint": receiver.url})
        async with exporting(settings, "instance", lambda: None) as tracer:
            with tracer.start_as_current_span("execute_tool", attributes={"gen_ai.tool.name": "a" * 1_000_000}) as span:
                span.set_attribute("url.path", "b" * 1_000_000)
        assert {name: len(text) for name, text in receiver.named("execute_tool").attributes.items()} == {
            "gen_ai.tool.name": LONGEST_ATTRIBUTE,
            "url.path": LONGEST_ATTRIBUTE,
        }
