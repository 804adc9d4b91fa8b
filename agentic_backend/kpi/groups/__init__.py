"""The metrics, one class for each subject; `kpi` joins them."""
