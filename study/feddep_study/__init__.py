"""The reproduction of the FedDEP paper: sweeps, statistics, claims, figures and documents."""
