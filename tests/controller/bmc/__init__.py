"""The BMC's part: a real HTTPS server on loopback that answers as a BMC does, or worse."""
