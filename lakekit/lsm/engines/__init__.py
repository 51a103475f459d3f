"""Merge engines, one a module named after the value of `merge-engine`: which row stands for a key, or what row its versions make."""
