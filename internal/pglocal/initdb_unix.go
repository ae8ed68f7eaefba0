//go:build unix

package pglocal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// initdb creates the cluster in a temporary directory and renames the directory when it is complete. So an incomplete
// cluster is never started.
func (c *cluster) initdb(ctx context.Context) error {
	if err := checkDirectoryEmpty(c.data); err != nil {
		return err
	}
	fresh := c.data + ".new"
	// LC_CTYPE is Unicode, so that upper and lower also handle letters beyond ASCII. Collation is by code point, which
	// is equal on every machine.
	locales := []string{"C"}
	if runtime.GOOS == "linux" {
		locales = []string{"C.UTF-8", "C"}
	}
	var err error
	for _, locale := range locales {
		if err = c.runInitdb(ctx, fresh, locale); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		os.RemoveAll(fresh) // the next initdb also removes the remains of this one
		return fmt.Errorf("make a new database cluster: %w", err)
	}
	if err := os.Rename(fresh, c.data); err != nil {
		return fmt.Errorf("make a new database cluster: %w", err)
	}
	c.Log.Info("made a private PostgreSQL cluster", "dir", c.data)
	return nil
}

// checkDirectoryEmpty returns an error if the directory is not empty and is not a cluster.
func checkDirectoryEmpty(data string) error {
	entries, err := os.ReadDir(data)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("the directory %s is not empty and contains no PostgreSQL cluster; move it away or choose another data directory", data)
	}
	return nil
}

func (c *cluster) runInitdb(ctx context.Context, fresh, ctype string) error {
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := os.Chown(fresh, c.owner.uid, c.owner.gid); err != nil {
		return err
	}
	cmd, path, err := c.command("initdb", fresh)
	if err != nil {
		return err
	}
	defer closeFiles(cmd)
	cmd.Args = append(cmd.Args, "--pgdata="+path, "--username="+userName, "--encoding=UTF8", "--locale=C", "--lc-ctype="+ctype,
		"--auth-local=trust", "--auth-host=reject", "--no-instructions")
	if c.Unsafe {
		cmd.Args = append(cmd.Args, "--no-sync")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr.Setpgid = true
	if err := runProcessGroup(ctx, cmd); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(out.String(), 5))
	}
	return nil
}

// runProcessGroup runs cmd, and kills its process group when ctx ends, because initdb's child processes keep its output
// open.
func runProcessGroup(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only if the group has already ended
	})
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
