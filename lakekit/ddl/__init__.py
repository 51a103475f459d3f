"""Create tables and change their schemas: definitions, changes of columns and options, validation."""
