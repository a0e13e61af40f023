"""One run: carrying it out, following it, storing it, and opening it again."""
