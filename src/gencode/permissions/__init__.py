"""What rules mean: pure decisions about paths, commands, URLs and every other call."""
