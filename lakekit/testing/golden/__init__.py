"""Golden bytes of every format: what they say stands beside them, and lakekit reads that and writes the canonical ones again."""
