"""The hosts' BMCs, asked over Redfish from the controller: read only, bounded, and believed as little as any host."""
