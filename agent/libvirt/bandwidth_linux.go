package libvirt

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
)

// trafficControl runs the tc commands in a new network namespace. It continues after a command that fails.
func trafficControl(ctx context.Context, batch string) (string, error) {
	cmd := exec.CommandContext(ctx, "tc", "-force", "-batch", "-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stdin = strings.NewReader(batch)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
