"""What server and silos say to each other over a network, and what each of them keeps."""
