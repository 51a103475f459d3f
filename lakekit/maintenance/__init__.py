"""What keeps a table well, a file a chore. A chore reads what is there, does its work through `write` and `commit`, and says what it did."""
