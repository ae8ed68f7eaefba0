package upgrade

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// canHandOver: an agent can replace its own process.
const canHandOver = true

// execProgram replaces this process by the program with the arguments. It returns only an error.
func execProgram(program string, args []string) error {
	return syscall.Exec(program, append([]string{program}, args...), os.Environ()) //nolint:gosec // the agent's own program
}

// inOwnGroup gives the command a process group of its own. It ends with the thread that starts it.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the process group of the started command.
func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil //nolint:gosec // far below the limit of int64
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
