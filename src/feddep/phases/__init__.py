"""The conversations that methods are made of; both halves of each stand in one file."""
