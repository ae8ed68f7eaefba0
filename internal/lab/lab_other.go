//go:build !linux

package lab

import (
	"context"
	"errors"
	"os/exec"
)

var errLinuxOnly = errors.New("lab hosts are made of Linux namespaces: run this on Linux as root, or try `quantix demo`")

// Host is a running lab host. It does not exist on this operating system.
type Host struct{}

// Supported returns the reason why lab hosts cannot run here.
func Supported() error { return errLinuxOnly }

// StartHost fails on this operating system.
func StartHost(context.Context, Options) (*Host, error) { return nil, errLinuxOnly }

// GuestImage fails on this operating system.
func GuestImage(context.Context, string) (GuestFiles, error) { return GuestFiles{}, errLinuxOnly }

// CacheDir returns "" on this operating system.
func CacheDir() string { return "" }

// URI returns "" on this operating system.
func (*Host) URI() string { return "" }

// Socket returns "" on this operating system.
func (*Host) Socket() string { return "" }

// HostUUID returns "" on this operating system.
func (*Host) HostUUID() string { return "" }

// Command returns a command that fails on this operating system.
func (*Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Err = errLinuxOnly
	return cmd
}

// Virsh fails on this operating system.
func (*Host) Virsh(context.Context, ...string) (string, error) { return "", errLinuxOnly }

// KillLibvirtd fails on this operating system.
func (*Host) KillLibvirtd(context.Context) error { return errLinuxOnly }

// StartLibvirtd fails on this operating system.
func (*Host) StartLibvirtd(context.Context) error { return errLinuxOnly }

// Stop does nothing on this operating system.
func (*Host) Stop(context.Context) error { return nil }

// Switch connects lab hosts. It does not exist on this operating system.
type Switch struct{}

// NewSwitch fails on this operating system.
func NewSwitch(context.Context) (*Switch, error) { return nil, errLinuxOnly }

// Close does nothing on this operating system.
func (*Switch) Close() error { return nil }

// Address returns "" on this operating system.
func (*Switch) Address() string { return "" }

// Subnet returns "" on this operating system.
func (*Switch) Subnet() string { return "" }

// Address returns "" on this operating system.
func (*Host) Address() string { return "" }
