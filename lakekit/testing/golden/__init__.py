"""Golden bytes of every format: they decode to the recorded values, and lakekit writes canonical ones again."""
