package libvirt

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
)

// trafficControl gives tc the commands in a network namespace of its own, also those after one that fails.
func trafficControl(ctx context.Context, batch string) (string, error) {
	cmd := exec.CommandContext(ctx, "tc", "-force", "-batch", "-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stdin = strings.NewReader(batch)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
