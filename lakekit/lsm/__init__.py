"""Sorted runs and how they merge: pure functions, frames in, masks or frames out."""
