package migration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// rootDir is the directory of the migration sockets.
const rootDir = "/run/quantix/migration"

// Side is a host's role in a migration.
type Side string

// The two sides of a migration.
const (
	Source Side = "source"
	Target Side = "target"
)

// SocketDir is the directory of a migration's sockets on one host.
type SocketDir string

func socketDirOf(id fleet.VMID, side Side) SocketDir {
	return SocketDir(filepath.Join(rootDir, string(side)+"-"+string(id)))
}

// MakeSocketDir makes an empty directory for the sockets of the VM's migration. uid is QEMU's user, who must be able to
// open and create sockets in the directory.
func MakeSocketDir(id fleet.VMID, side Side, uid int) (SocketDir, error) {
	return hostfile.RunWithinLookupTimeout(context.Background(), func() (SocketDir, error) {
		dir := socketDirOf(id, side)
		err := os.MkdirAll(rootDir, 0o711)
		if err == nil {
			err = os.RemoveAll(string(dir))
		}
		if err == nil {
			err = os.Mkdir(string(dir), 0o700)
		}
		if err == nil {
			err = os.Chown(string(dir), uid, -1)
		}
		return dir, err
	})
}

// Remove removes the directory.
func (d SocketDir) Remove() error { return os.RemoveAll(string(d)) }

// RemoveSocketDir removes the directory that an interrupted migration has left.
func RemoveSocketDir(id fleet.VMID, side Side) error {
	_, err := hostfile.RunWithinLookupTimeout(context.Background(), func() (struct{}, error) {
		return struct{}{}, socketDirOf(id, side).Remove()
	})
	return err
}

// streams are the kinds of streams between the hosts, each with the name of its socket.
var streams = map[byte]string{
	'm': "migrate.sock", // QEMU's migration stream
	'd': "disks.sock",   // the copied disks, by NBD
}

// MigrationURI is the address of QEMU's migration stream on this host.
func (d SocketDir) MigrationURI() string { return d.uri('m') }

// DisksURI is the address of the copied disks on this host.
func (d SocketDir) DisksURI() string { return d.uri('d') }

func (d SocketDir) uri(kind byte) string { return "unix://" + d.path(kind) }

func (d SocketDir) path(kind byte) string { return filepath.Join(string(d), streams[kind]) }

// Forward opens the sockets to which the source's libvirt and QEMU connect, and forwards the connections to the target.
// stop closes the link and removes the directory.
func (d SocketDir) Forward(link *Link) (stop func(), err error) {
	var all []net.Listener
	var done sync.WaitGroup
	stop = func() {
		for _, l := range all {
			l.Close()
		}
		link.Close()
		done.Wait()
		_ = d.Remove() // the VM's next migration from this host removes the rest
	}
	for kind := range streams {
		listener, err := net.Listen("unix", d.path(kind)) //nolint:noctx // it takes no time
		if err != nil {
			stop()
			return nil, err
		}
		all = append(all, listener)
		if err := os.Chmod(d.path(kind), 0o666); err != nil { // the directory admits only QEMU's user
			stop()
			return nil, err
		}
		done.Go(func() { link.ForwardFrom(listener, kind) })
	}
	return stop, nil
}

// Dial connects to the target's socket of the stream's kind.
func (d SocketDir) Dial(kind byte) (net.Conn, error) {
	if streams[kind] == "" {
		return nil, fmt.Errorf("the source host opens a stream of the unknown kind %q", kind)
	}
	return net.Dial("unix", d.path(kind)) //nolint:noctx // it takes no time
}

// QEMUUser returns the ID of the user that libvirt runs QEMU with, from libvirt's capabilities; 0: the user is unknown.
func QEMUUser(capabilities string) (uid int, err error) {
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(capabilities); err != nil {
		return 0, err
	}
	for _, model := range caps.Host.SecModel {
		for _, label := range model.Labels {
			if model.Name == "dac" && (label.Type == "kvm" || label.Type == "qemu") {
				if uid, err = qemuUserOf(label.Value); err != nil {
					return 0, err
				}
			}
		}
	}
	return uid, nil
}

// qemuUserOf returns the user ID of a base label in libvirt's capabilities.
func qemuUserOf(label string) (int, error) {
	var uid, gid int
	if _, err := fmt.Sscanf(label, "+%d:+%d", &uid, &gid); err != nil {
		return 0, fmt.Errorf("libvirt's capabilities have the DAC label %s: %w", strconv.Quote(label), err)
	}
	return uid, nil
}
