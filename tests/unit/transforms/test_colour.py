"""Changes of colour take what torchvision's take."""
