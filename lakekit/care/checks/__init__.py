"""The parts of `t.check()`: each looks at one thing and writes down what it finds."""
