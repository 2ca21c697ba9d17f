"""Parts of the command `cleancut`: what its commands share, and those that go on until stopped."""
