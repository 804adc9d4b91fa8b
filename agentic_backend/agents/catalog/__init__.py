"""The catalog: its entries, what they name, and the checks of both."""
