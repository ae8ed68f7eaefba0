//go:build !linux

package lab

import (
	"context"
	"errors"
	"os/exec"
)

var errLinuxOnly = errors.New("lab hosts are made of Linux namespaces: run this on Linux as root, or try `quantix demo`")

// Host is a running lab host; there is none on this operating system.
type Host struct{}

// Supported says why lab hosts cannot run here.
func Supported() error { return errLinuxOnly }

// StartHost fails on this operating system.
func StartHost(context.Context, Options) (*Host, error) { return nil, errLinuxOnly }

// GuestImage fails on this operating system.
func GuestImage(context.Context, string) (GuestFiles, error) { return GuestFiles{}, errLinuxOnly }

// CacheDir is empty on this operating system.
func CacheDir() string { return "" }

// URI is the libvirt URI of the host.
func (*Host) URI() string { return "" }

// Socket is the path of libvirtd's socket.
func (*Host) Socket() string { return "" }

// HostUUID is the host's UUID as libvirt reports it.
func (*Host) HostUUID() string { return "" }

// Command makes a command that cannot run on this operating system.
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

// Switch joins lab hosts.
type Switch struct{}

// NewSwitch fails on this operating system.
func NewSwitch(context.Context) (*Switch, error) { return nil, errLinuxOnly }

// Close does nothing on this operating system.
func (*Switch) Close() error { return nil }

// Address is empty on this operating system.
func (*Switch) Address() string { return "" }

// Subnet is empty on this operating system.
func (*Switch) Subnet() string { return "" }

// Address is empty on this operating system.
func (*Host) Address() string { return "" }
