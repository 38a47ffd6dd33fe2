"""Real hosts for tests: systemd as PID 1, sshd, a network, a power cord; without GPUs or kernels of their own."""
