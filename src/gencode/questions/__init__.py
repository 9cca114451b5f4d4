"""Questions of agents: to their parent first, then to people, wherever these are."""
