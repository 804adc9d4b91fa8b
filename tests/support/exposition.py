"""The metrics as a scraper reads them."""

from prometheus_client.parser import text_string_to_metric_families

from agentic_backend.kpi import Kpi


def value_of(kpi: Kpi, name: str, **labels: str) -> float:
    """The value of a sample; 0 where there is none."""
    exposition, _ = kpi.exposition("")
    samples = [one for family in text_string_to_metric_families(exposition.decode()) for one in family.samples]
    return sum(one.value for one in samples if one.name == name and one.labels == labels)
