"""Channels to people: mail, chat and pagers, by the library Apprise."""
