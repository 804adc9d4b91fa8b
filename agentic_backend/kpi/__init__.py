from agentic_backend.kpi.kpi import Kpi

__all__ = ["Kpi"]
