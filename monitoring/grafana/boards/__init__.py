"""Dashboards: rows of panels."""
