"""The only room that reads clocks. It measures rates before jobs run, and changes splits while they run."""
