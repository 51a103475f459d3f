"""File indexes of data files, one plugin module for each kind; `evaluator` says what a module has."""

NOT_PLUGINS = frozenset({"container", "evaluator"})
