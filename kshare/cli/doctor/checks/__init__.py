"""The checks of `kshare doctor`: a module for each subject. A check takes a Patient and yields Findings."""
