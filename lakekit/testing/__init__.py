"""What tests of lakekit, and of programs that use it, need: an oracle, strategies, and the recorded reads of the golden tables."""
