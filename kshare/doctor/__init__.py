"""Checks for problems of share groups, a module for each subject: from a ClusterInfo, it yields CheckResults."""
