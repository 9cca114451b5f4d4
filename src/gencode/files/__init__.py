"""Files: opened only where they were judged, the versions an agent has seen, and images."""
