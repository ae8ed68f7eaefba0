package image

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

const nobody = 65534

// asNobody lets the command run without any right but to read the file, which back takes away again. Who is not root has none to give up.
func asNobody(cmd *exec.Cmd, file *os.File) (back func() error, err error) {
	if os.Geteuid() != 0 {
		return func() error { return nil }, nil
	}
	if back, err = lend(file, 0o040); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	return back, nil
}

// lend gives nobody's group the rights on the file, which back takes away again.
func lend(file *os.File, rights os.FileMode) (back func() error, err error) {
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
	back = func() error { return errors.Join(file.Chmod(info.Mode().Perm()), file.Chown(-1, int(was.Gid))) }
	if err := errors.Join(file.Chown(-1, nobody), file.Chmod(info.Mode().Perm()|rights)); err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}
