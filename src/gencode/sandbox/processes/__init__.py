"""Commands that cannot escape: `command_runner` is the way in, `fork_server` runs outside our process."""
