//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// libvirtdTimeout is the time limit for a libvirtd to start and answer.
const libvirtdTimeout = 30 * time.Second

// StartLibvirtd starts the host's libvirtd, for example after KillLibvirtd, and returns when it answers. libvirtd then
// manages the running guests again.
func (h *Host) StartLibvirtd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, libvirtdTimeout)
	defer cancel()
	// If two libvirtds started at the same time, both would create the shared firewall chains, and one network would
	// fail to start.
	lock, err := lockSlots(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if out, err := h.Command(ctx, "libvirtd", "-d", "--pid-file", "/run/libvirt/libvirtd.pid").CombinedOutput(); err != nil {
		return fmt.Errorf("start libvirtd: %w: %s (its log: %s)", errors.Join(ctx.Err(), err), strings.TrimSpace(string(out)), filepath.Join(h.opts.Dir, "log/libvirtd.log"))
	}
	if _, err := h.Virsh(ctx, "uri"); err != nil {
		return fmt.Errorf("libvirtd does not answer: %w (its log: %s)", err, filepath.Join(h.opts.Dir, "log/libvirtd.log"))
	}
	return nil
}

// KillLibvirtd kills the host's libvirtd with SIGKILL and returns when libvirtd has ended. Guests keep running.
func (h *Host) KillLibvirtd(ctx context.Context) error {
	pid, err := os.ReadFile(filepath.Join(h.opts.Dir, "run/libvirtd.pid"))
	if err != nil {
		return fmt.Errorf("kill libvirtd: %w", err)
	}
	const script = `kill -KILL "$1" && while kill -0 "$1" 2>/dev/null; do sleep 0.01; done`
	if out, err := h.Command(ctx, "sh", "-c", script, "kill", strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		return fmt.Errorf("kill libvirtd: %w: %s", errors.Join(ctx.Err(), err), strings.TrimSpace(string(out)))
	}
	return nil
}
