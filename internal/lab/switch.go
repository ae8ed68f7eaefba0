//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// switchDir holds one locked file for each switch of the machine. An unlocked file belongs to a dead program.
const switchDir = "/run/quantix-lab-switch"

// Switch connects lab hosts that have their own network namespaces. It is a bridge on the machine, with an address at
// which the hosts reach the portal.
type Switch struct {
	number int
	file   *os.File
}

// NewSwitch creates a switch. Remove it with Close. If the program dies first, the next NewSwitch of any program
// removes the switch.
func NewSwitch(ctx context.Context) (*Switch, error) {
	if err := os.MkdirAll(switchDir, 0o700); err != nil {
		return nil, err
	}
	for number := range slots {
		s := &Switch{number: number}
		file, err := os.OpenFile(filepath.Join(switchDir, strconv.Itoa(number)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			file.Close()
			continue
		}
		s.file = file
		if err := s.create(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, ctx.Err()
	}
	return nil, fmt.Errorf("%d switches of lab hosts exist on this machine, which is the maximum: stop some of the labs", slots)
}

func (s *Switch) create() error {
	if err := s.remove(); err != nil { // a dead program may have left it
		return err
	}
	for _, args := range [][]string{
		{"link", "add", s.bridge(), "type", "bridge", "stp_state", "0", "forward_delay", "0"},
		{"addr", "add", s.Address() + "/24", "dev", s.bridge()},
		{"link", "set", s.bridge(), "up"},
	} {
		if err := runCommand("ip", args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Switch) remove() error {
	if !fileExists("/sys/class/net/" + s.bridge()) {
		return nil
	}
	return runCommand("ip", "link", "delete", s.bridge())
}

// Close removes the switch.
func (s *Switch) Close() error {
	err := errors.Join(s.remove(), os.Remove(s.file.Name()), s.file.Close())
	_ = os.Remove(switchDir) // the removal succeeds only after the last switch was removed
	return err
}

func (s *Switch) bridge() string { return "qxsw" + strconv.Itoa(s.number) }

// Address returns the machine's IP address on the switch.
func (s *Switch) Address() string { return fmt.Sprintf("10.213.%d.1", s.number) }

// Subnet returns the switch's subnet in CIDR notation.
func (s *Switch) Subnet() string { return fmt.Sprintf("10.213.%d.0/24", s.number) }

// connectToSwitch gives the host two network devices on the switch: eth0 with an address and the default route, and
// eth1 without an address.
func (h *Host) connectToSwitch(ctx context.Context) error {
	s, pid := h.opts.Switch, strconv.Itoa(h.supervisor.Process.Pid)
	for i, nic := range []string{"eth0", "eth1"} {
		outer := fmt.Sprintf("qxh%d%c", h.slot.number, 'a'+i)
		for _, args := range [][]string{
			{"link", "add", outer, "type", "veth", "peer", "name", nic, "netns", pid},
			{"link", "set", outer, "master", s.bridge(), "up"},
		} {
			if err := runCommand("ip", args...); err != nil {
				return err
			}
		}
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", h.Address() + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"link", "set", "eth1", "up"},
		{"route", "add", "default", "via", s.Address()},
	} {
		if out, err := h.Command(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// waitForNICRemoval waits until the host's network devices have disappeared, shortly after the end of the host's namespace.
func (h *Host) waitForNICRemoval(within time.Duration) error {
	for until := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		left := ""
		for _, c := range "ab" {
			if outer := fmt.Sprintf("qxh%d%c", h.slot.number, c); fileExists("/sys/class/net/" + outer) {
				left = outer
			}
		}
		if left == "" {
			return nil
		}
		if time.Now().After(until) {
			return runCommand("ip", "link", "delete", left)
		}
	}
}

// Address returns the host's IP address on its switch, or "" if it has no switch.
func (h *Host) Address() string {
	if h.opts.Switch == nil {
		return ""
	}
	return fmt.Sprintf("10.213.%d.%d", h.opts.Switch.number, 10+h.slot.number)
}
