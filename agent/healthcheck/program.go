package healthcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// maxProgramOutput is the maximum number of bytes that a program may write.
const maxProgramOutput = 1 << 20

// Program runs a program and returns its output. An exit status other than 0 is no error.
type Program func(ctx context.Context, args ...string) (output []byte, status int, err error)

// errNotInstalled is the error of a program that the host lacks.
var errNotInstalled = errors.New("the program is not installed")

// NewProgram returns the Program of that name in PATH. Each call looks for it, so that an installation counts at once.
func NewProgram(name string) Program {
	return func(ctx context.Context, args ...string) ([]byte, int, error) {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, 0, errNotInstalled
		}
		return runProgram(ctx, path, args...)
	}
}

// runProgram runs a program with a bounded output. When ctx ends, it kills the program and its children.
func runProgram(ctx context.Context, path string, args ...string) ([]byte, int, error) {
	out := &boundedBuffer{most: maxProgramOutput}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case out.full:
		return nil, 0, fmt.Errorf("it wrote more than %d KiB", maxProgramOutput>>10)
	case ctx.Err() != nil:
		return nil, 0, fmt.Errorf("it did not end in time: %w", ctx.Err())
	case exited && exit.Exited():
		return out.Bytes(), exit.ExitCode(), nil
	case err != nil:
		return nil, 0, err
	}
	return out.Bytes(), 0, nil
}

// boundedBuffer is a buffer that refuses to grow beyond a size.
type boundedBuffer struct {
	bytes.Buffer
	most int
	full bool
}

// Write appends b.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full = true
		return 0, errors.New("too much output")
	}
	return b.Buffer.Write(p)
}
