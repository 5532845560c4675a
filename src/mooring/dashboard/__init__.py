"""The dashboard of a scheduler: pages for browsers, the data they show, and live updates."""
