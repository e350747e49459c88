"""What is known of share groups at one moment: readings of a cluster, figures, pictures, and what is wrong."""
