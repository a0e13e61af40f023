"""Generated payments between banks, with laundering among them: :func:`~.folders.make_payments`."""
