"""The paper's claims, and the rule that decides them."""
