package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/hostfile"
	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// migrationDir is the directory of the migration sockets. QEMU's user must be able to create a socket in the directory
// of each migration.
var migrationDir = "/run/quantix/migration"

// forwardStream opens the socket to which libvirt sends the guest, and forwards its connections to the target.
func (m *liveMigration) forwardStream(link *migration.Link) (socket string, stop func(), err error) {
	dir, err := makeMigrationDir(m.in.VM.ID, migrationSource, 0)
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "migrate.sock")
	listener, err := net.Listen("unix", socket) //nolint:noctx // it takes no time
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		link.ForwardFrom(listener, streamMigration)
	}()
	return socket, func() {
		listener.Close()
		link.Close()
		<-done
		_ = os.RemoveAll(dir) // the VM's next migration from this host removes the rest
	}, nil
}

// The two sides of a migration, in the names of their directories.
const (
	migrationSource = "source"
	migrationTarget = "target"
)

func migrationDirOf(id fleet.VMID, side string) string {
	return filepath.Join(migrationDir, side+"-"+string(id))
}

// removeMigrationDir removes the directory that an interrupted migration has left.
func removeMigrationDir(id fleet.VMID, side string) error {
	_, err := hostfile.RunWithinLookupTimeout(context.Background(), func() (struct{}, error) {
		return struct{}{}, os.RemoveAll(migrationDirOf(id, side))
	})
	return err
}

// makeMigrationDir makes an empty directory for the sockets of the VM's migration. uid is its owner.
func makeMigrationDir(id fleet.VMID, side string, uid int) (string, error) {
	return hostfile.RunWithinLookupTimeout(context.Background(), func() (string, error) {
		dir := migrationDirOf(id, side)
		err := os.MkdirAll(migrationDir, 0o711)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			err = os.Chown(dir, uid, -1)
		}
		return dir, err
	})
}

// migrationParams returns the parameters of a phase. socket is the path of the migration stream's socket on the phase's
// host; empty: the phase needs none.
func migrationParams(domain, socket string, more ...golibvirt.TypedParam) []golibvirt.TypedParam {
	out := []golibvirt.TypedParam{textParam(golibvirt.MigrateParamDestName, domain)}
	if socket != "" {
		out = append(out, textParam(golibvirt.MigrateParamURI, "unix://"+socket))
	}
	return append(out, more...)
}

func textParam(field, value string) golibvirt.TypedParam {
	return golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueString(value)}
}

// qemuUser returns the user ID that libvirt runs QEMU with, from the base label of its capabilities.
func qemuUser(label string) (int, error) {
	var uid, gid int
	if _, err := fmt.Sscanf(label, "+%d:+%d", &uid, &gid); err != nil {
		return 0, fmt.Errorf("libvirt's capabilities have the DAC label %s: %w", strconv.Quote(label), err)
	}
	return uid, nil
}
