"""What all commands reach a cluster with: connection options, logging in, whether topics exist."""
