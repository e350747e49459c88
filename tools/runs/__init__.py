"""What holds for a run of the tests as a whole: that it ends, and that brokers which stop answering are noticed."""
