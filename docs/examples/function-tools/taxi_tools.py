async def order_taxi(street: str, persons: int = 1) -> str:
    """Order a taxi to a street."""
    return f"A taxi for {persons} comes to {street}."
