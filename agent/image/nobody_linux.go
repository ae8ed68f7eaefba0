package image

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

const nobody = 65534

// runAsNobody makes the command run as an unprivileged user who may only read the file; revoke ends that access.
// Without root privileges, runAsNobody does nothing.
func runAsNobody(cmd *exec.Cmd, file *os.File) (revoke func() error, err error) {
	if os.Geteuid() != 0 {
		return func() error { return nil }, nil
	}
	if revoke, err = grantAccessToNobody(file, 0o040); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	return revoke, nil
}

// grantAccessToNobody gives the group of user nobody the rights to the file; revoke restores the file's group and mode.
func grantAccessToNobody(file *os.File, rights os.FileMode) (revoke func() error, err error) {
	if os.Geteuid() != 0 {
		return func() error { return nil }, nil
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	was, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("the file's owner cannot be read")
	}
	revoke = func() error { return errors.Join(file.Chmod(info.Mode().Perm()), file.Chown(-1, int(was.Gid))) }
	if err := errors.Join(file.Chown(-1, nobody), file.Chmod(info.Mode().Perm()|rights)); err != nil {
		return nil, errors.Join(err, revoke())
	}
	return revoke, nil
}

// newDeletedDir returns the path of a new directory that is already deleted. The directory stays empty, and no
// directory is left if this process is killed. The caller must call closeDir once the program runs.
func newDeletedDir() (dir string, closeDir func() error, err error) {
	name, err := os.MkdirTemp("", "quantix-image-")
	if err != nil {
		return "", nil, err
	}
	f, err := os.Open(name)
	if err == nil {
		err = f.Chmod(0o711) // the unprivileged user needs to enter the directory
	}
	if err = errors.Join(err, os.Remove(name)); err != nil {
		f.Close()
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), f.Close, nil
}
