"""Golden bytes of every format: decoded to the recorded values, canonical ones written again."""
