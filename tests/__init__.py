"""The tests, laid out like src/gencode; `house` checks the rules that hold for all of it."""
