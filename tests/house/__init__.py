"""House rules: tests that read the source, the documents and the tests themselves."""
