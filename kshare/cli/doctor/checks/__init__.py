"""What `kshare doctor` looks at: one module a subject, each with checks that take a Patient and give Findings."""
