"""Cities and their time zones: a table of well-known cities, and every place in the time zone database."""

import unicodedata
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from agentic_backend.text.normal_form import normal_form

CITIES = {
    "Accra": "Africa/Accra",
    "Addis Ababa": "Africa/Addis_Ababa",
    "Amsterdam": "Europe/Amsterdam",
    "Athens": "Europe/Athens",
    "Auckland": "Pacific/Auckland",
    "Baghdad": "Asia/Baghdad",
    "Bangalore": "Asia/Kolkata",
    "Bangkok": "Asia/Bangkok",
    "Barcelona": "Europe/Madrid",
    "Beijing": "Asia/Shanghai",
    "Berlin": "Europe/Berlin",
    "Bogotá": "America/Bogota",
    "Boston": "America/New_York",
    "Brussels": "Europe/Brussels",
    "Budapest": "Europe/Budapest",
    "Buenos Aires": "America/Argentina/Buenos_Aires",
    "Cairo": "Africa/Cairo",
    "Cape Town": "Africa/Johannesburg",
    "Chicago": "America/Chicago",
    "Copenhagen": "Europe/Copenhagen",
    "Delhi": "Asia/Kolkata",
    "Dubai": "Asia/Dubai",
    "Dublin": "Europe/Dublin",
    "Frankfurt": "Europe/Berlin",
    "Geneva": "Europe/Zurich",
    "Hanoi": "Asia/Bangkok",
    "Helsinki": "Europe/Helsinki",
    "Hong Kong": "Asia/Hong_Kong",
    "Istanbul": "Europe/Istanbul",
    "Jakarta": "Asia/Jakarta",
    "Johannesburg": "Africa/Johannesburg",
    "Karachi": "Asia/Karachi",
    "Kyiv": "Europe/Kyiv",
    "Lagos": "Africa/Lagos",
    "Lima": "America/Lima",
    "Lisbon": "Europe/Lisbon",
    "London": "Europe/London",
    "Los Angeles": "America/Los_Angeles",
    "Lyon": "Europe/Paris",
    "Madrid": "Europe/Madrid",
    "Manila": "Asia/Manila",
    "Melbourne": "Australia/Melbourne",
    "Mexico City": "America/Mexico_City",
    "Milan": "Europe/Rome",
    "Montreal": "America/Toronto",
    "Mumbai": "Asia/Kolkata",
    "Munich": "Europe/Berlin",
    "Nairobi": "Africa/Nairobi",
    "New York": "America/New_York",
    "Oslo": "Europe/Oslo",
    "Paris": "Europe/Paris",
    "Prague": "Europe/Prague",
    "Rio de Janeiro": "America/Sao_Paulo",
    "Rome": "Europe/Rome",
    "San Francisco": "America/Los_Angeles",
    "Santiago": "America/Santiago",
    "São Paulo": "America/Sao_Paulo",
    "Seattle": "America/Los_Angeles",
    "Seoul": "Asia/Seoul",
    "Shanghai": "Asia/Shanghai",
    "Singapore": "Asia/Singapore",
    "Stockholm": "Europe/Stockholm",
    "Sydney": "Australia/Sydney",
    "Taipei": "Asia/Taipei",
    "Tehran": "Asia/Tehran",
    "Tel Aviv": "Asia/Jerusalem",
    "Tokyo": "Asia/Tokyo",
    "Toronto": "America/Toronto",
    "Vancouver": "America/Vancouver",
    "Vienna": "Europe/Vienna",
    "Warsaw": "Europe/Warsaw",
    "Washington": "America/New_York",
    "Zurich": "Europe/Zurich",
}


class UnknownPlace(LookupError):
    """The place is unknown, or there is no time zone database. The text tells the person what to do."""


def find_place(name: str) -> tuple[str, ZoneInfo]:
    """The proper name and the time zone of the place called `name`. Reads files: don't call it in the event loop.

    `name` is a city, a city with its country ("Paris, France"), or an IANA name ("Europe/Paris"), in upper or lower
    case. Raises UnknownPlace.
    """
    zones = available_timezones()
    if not zones:
        raise UnknownPlace("This machine has no time zone database; the Python package tzdata brings one.")
    places = _places(zones)
    for candidate in (name, name.partition(",")[0]):
        if found := places.get(_folded(candidate)):
            place, zone = found
            return place, ZoneInfo(zone)
    near = dict.fromkeys(places[key][0] for key in get_close_matches(_folded(name)[:100], places, n=3, cutoff=0.6))
    hint = f"Did you mean {' or '.join(near)}?" if near else "Try a larger city, or an IANA name such as Europe/Paris."
    raise UnknownPlace(f"No time zone is known for {name[:100]!r}. {hint}")


def _places(zones: set[str]) -> dict[str, tuple[str, str]]:
    """Every known place by its folded name: zone names, the cities in them, and CITIES, which takes precedence."""
    names = {zone: zone for zone in sorted(zones)}
    cities = {zone.rpartition("/")[2].replace("_", " "): zone for zone in sorted(zones) if "/" in zone}
    return {_folded(name): (name, zone) for name, zone in {**cities, **names, **CITIES}.items() if zone in zones}


def _folded(name: str) -> str:
    """`name` without accents, case and extra spaces."""
    decomposed = normal_form("NFKD", name.replace("_", " "))
    return " ".join("".join(char for char in decomposed if not unicodedata.combining(char)).casefold().split())
