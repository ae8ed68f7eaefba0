package network

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
)

// TrafficControl runs the tc commands in a new network namespace. It continues after a command that fails.
func TrafficControl(ctx context.Context, batch string) (string, error) {
	cmd := exec.CommandContext(ctx, "tc", "-force", "-batch", "-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stdin = strings.NewReader(batch)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
