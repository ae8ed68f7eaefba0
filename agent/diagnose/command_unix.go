//go:build unix

package diagnose

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// findProgram returns the path of a program of the system; empty: not installed.
func findProgram(name string) string {
	path, _ := strings.CutPrefix(commandEnvironment[0], "PATH=")
	for dir := range strings.SplitSeq(path, ":") {
		if info, err := os.Stat(dir + "/" + name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return dir + "/" + name
		}
	}
	return ""
}

// runCommand runs the command in its own process group, with a clean environment and no input, and kills the whole group
// when ctx ends, when the output is too long, or when the command has ended.
func runCommand(ctx context.Context, cmd *exec.Cmd, to io.Writer) error {
	cmd.Env, cmd.Dir = commandEnvironment, "/"
	cmd.Stdout, cmd.Stderr = to, to
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = killGroup
	cmd.WaitDelay = time.Second / 2
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	_ = killGroup() // processes that the command left behind
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
