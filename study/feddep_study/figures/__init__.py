"""Rows of the study as plots."""
