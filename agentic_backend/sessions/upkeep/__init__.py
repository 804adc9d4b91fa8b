"""What runs beside the asks: leases and orphans, retention, chores, the schema's upgrade."""
