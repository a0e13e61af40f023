"""The conversations that methods consist of, each with both halves in one file."""
