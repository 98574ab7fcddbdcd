"""What touches Gymnasium, Minari and Stable-Baselines3: models, codes, wrappers, files."""
