//go:build unix

package pglocal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the system user that PostgreSQL runs as, because it refuses to run as root.
type owner struct{ uid, gid int }

// dataOwner returns the owner of an existing data directory, so that creating a user "postgres" later changes nothing.
func dataOwner(data string) (owner, error) {
	self := owner{os.Getuid(), os.Getgid()}
	var existing *owner
	info, err := os.Stat(data)
	switch {
	case err == nil:
		stat := info.Sys().(*syscall.Stat_t)
		existing = &owner{int(stat.Uid), int(stat.Gid)}
	case !errors.Is(err, os.ErrNotExist):
		return owner{}, err
	}
	switch {
	case self.uid == 0 && existing != nil && existing.uid != 0:
		return *existing, nil
	case self.uid == 0 && existing != nil:
		return owner{}, fmt.Errorf("the data directory %s belongs to root, but PostgreSQL refuses to run as root; "+
			"give the directory to another user with: chown -R postgres %s", data, data)
	case self.uid == 0:
		return unprivilegedOwner()
	case existing != nil && existing.uid != self.uid:
		return owner{}, fmt.Errorf("the data directory %s belongs to user id %d; run as that user or as root", data, existing.uid)
	}
	return self, nil
}

func unprivilegedOwner() (owner, error) {
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if uidErr == nil && gidErr == nil {
			return owner{uid, gid}, nil
		}
	}
	return owner{}, errors.New("PostgreSQL refuses to run as root, and this machine has neither a user postgres nor nobody; create one")
}

// command prepares one of PostgreSQL's programs to run as the owner, without the caller's PG… variables. The program
// must access the directory by the returned path. If the owner cannot reach the directory (below /root, for example),
// the program gets it as an open file descriptor, which the caller closes after the start.
func (c *cluster) command(program, directory string) (cmd *exec.Cmd, path string, err error) {
	cmd = c.baseCommand(program)
	cmd.Dir = directory
	cmd.Args = append(cmd.Args, "--version")
	if err := cmd.Run(); err == nil {
		return c.baseCommand(program), directory, nil
	} else if !errors.Is(err, os.ErrPermission) {
		return nil, "", fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	if !inheritedPaths {
		return nil, "", c.unreachableError(directory)
	}
	f, err := os.Open(directory)
	if err != nil {
		return nil, "", err
	}
	probe := c.baseCommand(program)
	probe.Args = append(probe.Args, "--version")
	if err := probe.Run(); err != nil {
		f.Close()
		return nil, "", fmt.Errorf("user id %d cannot run %s; make it readable and executable for all: %w", c.owner.uid, cmd.Path, err)
	}
	cmd = c.baseCommand(program)
	cmd.ExtraFiles = []*os.File{f}
	return cmd, "/proc/self/fd/3", nil
}

func (c *cluster) unreachableError(directory string) error {
	return fmt.Errorf("PostgreSQL runs as user id %d, which may not enter %s; "+
		"choose a data directory whose parents all users may enter (chmod o+x), such as /var/lib/quantix", c.owner.uid, directory)
}

func (c *cluster) baseCommand(program string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.binDir, program))
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + c.binDir + ":/usr/bin:/bin", "LC_ALL=C", "LANG=C", "TZ=UTC"}
	if value, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.owner.uid), Gid: uint32(c.owner.gid)}
	}
	return cmd
}

func closeFiles(cmd *exec.Cmd) {
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
}
