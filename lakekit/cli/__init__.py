"""The command line: `lakekit VERB …`."""
