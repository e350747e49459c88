"""The checks of `kshare doctor`: a module for each subject. A check takes a ClusterInfo and yields CheckResults."""
