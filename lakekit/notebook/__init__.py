"""Widgets for Jupyter: ipywidgets only, no network, no JavaScript of our own."""
