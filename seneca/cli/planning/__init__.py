"""Commands that measure and predict: profile, plan."""
