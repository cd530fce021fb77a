"""What shell commands say: words, commands, and the pytest runs among them."""
