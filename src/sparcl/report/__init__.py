"""Showing results: tables of finished runs."""
