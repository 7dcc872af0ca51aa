"""From changes to units: what is refreshed at once, and which way leads to it from each source."""
