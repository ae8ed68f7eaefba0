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

// Command returns a command that runs inside the host. The local process acts for the command: it forwards signals and
// returns the command's exit status, and a kill of the local process also kills the command. The working directory and
// all paths are paths inside the host.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", commandScript, "lab-host", strconv.Itoa(h.supervisor.Process.Pid), name}, args...)...)
	cmd.Env = commandEnvironment(h.opts.Env)
	cmd.WaitDelay = 5 * time.Second
	select {
	case <-h.gone:
		cmd.Err = fmt.Errorf("lab host %q has stopped", h.opts.Name)
	default:
	}
	return cmd
}

// Virsh runs virsh against the host's libvirtd and returns its trimmed output. An error contains virsh's error text.
func (h *Host) Virsh(ctx context.Context, args ...string) (string, error) {
	cmd := h.Command(ctx, "virsh", append([]string{"-q", "-c", "qemu:///system"}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errOut.String())
		return "", fmt.Errorf("virsh %s: %w: %s", strings.Join(args, " "), errors.Join(ctx.Err(), err), text)
	}
	return strings.TrimSpace(out.String()), nil
}

// sbin lists the directories of daemons. The PATH of a root shell that su starts often lacks them.
const sbin = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

// commandEnvironment returns this process's environment with sbin added to PATH, followed by extra.
func commandEnvironment(extra []string) []string {
	return append(append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+sbin), extra...)
}
