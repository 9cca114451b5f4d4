"""What people and programs meet: the command line, the screens, the servers."""
