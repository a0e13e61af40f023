"""What the server and the silos send each other over a network, and what each of them stores."""
