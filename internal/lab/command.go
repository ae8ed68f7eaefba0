//go:build linux

package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed command.sh
var commandScript string

// Command makes a command that runs inside the host. The returned process stands for it: signals reach the command,
// Kill kills it, its exit status is returned. Its working directory and paths are those inside.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", commandScript, "lab-host", strconv.Itoa(h.supervisor.Process.Pid), name}, args...)...)
	cmd.Env = environment(h.opts.Env)
	cmd.WaitDelay = 5 * time.Second
	select {
	case <-h.gone:
		cmd.Err = fmt.Errorf("lab host %q has stopped", h.opts.Name)
	default:
	}
	return cmd
}

// Virsh runs virsh against the host's libvirtd and returns its trimmed output. An error carries virsh's own words.
func (h *Host) Virsh(ctx context.Context, args ...string) (string, error) {
	cmd := h.Command(ctx, "virsh", append([]string{"-q", "-c", "qemu:///system"}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(errOut.String())
		return "", fmt.Errorf("virsh %s: %w: %s", strings.Join(args, " "), errors.Join(ctx.Err(), err), said)
	}
	return strings.TrimSpace(out.String()), nil
}

// sbin is where distributions keep daemons, often missing from the path of a root shell made by su.
const sbin = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

// environment is this process's environment with sbin on the path and extra on top.
func environment(extra []string) []string {
	return append(append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+sbin), extra...)
}
