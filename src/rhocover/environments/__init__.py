"""Everything that uses Gymnasium or Stable-Baselines3: encodings, transition tables, wrappers, callbacks."""
