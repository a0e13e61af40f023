"""Several machines: what a silo consents to, what left it, the server's and the silo's programs."""
