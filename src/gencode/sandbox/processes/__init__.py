"""processes: commands that cannot escape. `commands` is the door; `keeper` and `warden` run outside."""
