"""How commands reach a cluster: connection options, authentication, checks that topics exist."""
