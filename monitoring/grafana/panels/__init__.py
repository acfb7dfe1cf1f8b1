"""Panels by topic. Each is one function, whichever dashboards show it."""
