"""One run: carried out, followed, stored, and opened again."""
