package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"quantix/db"
	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/load"
)

// loaded is a portal in a process of its own, so that its CPU and memory are its own too.
type loaded struct {
	cmd        *exec.Cmd
	dir        string
	url, token string
	database   string
	postgres   int // the process
}

// startLoaded starts this very program as a portal in a temporary directory, with nobody's settings.
func startLoaded(ctx context.Context, progress io.Writer) (p *loaded, err error) {
	self, err := os.Executable()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quantix-load-")
	if err != nil {
		return nil, err
	}
	p = &loaded{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	settings := filepath.Join(dir, "portal.yaml")
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(settings, nil, 0o600)); err != nil { // PostgreSQL runs as a user of its own
		return nil, err
	}
	fmt.Fprintln(progress, "Starting a portal with a private PostgreSQL …")
	p.cmd = exec.Command(self, "portal", "--config", settings, "--data-dir", dir, "--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0", "--log-format", "json")
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "QUANTIX_") })
	p.cmd.SysProcAttr = apart() // Ctrl-C is for this program, which then ends the portal
	log, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.cmd = nil
		return nil, err
	}
	if err := p.await(log, progress); err != nil {
		return nil, err
	}
	return p, p.lookIn(ctx)
}

// await reads the portal's log until it says that it runs. What it says then that is worse than a warning is passed on.
func (p *loaded) await(log io.Reader, progress io.Writer) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	var last string
	for lines.Scan() {
		var said struct{ Msg, URL, Level string }
		last = lines.Text()
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "portal is running" {
			p.url = said.URL
			go func() {
				for lines.Scan() {
					if json.Unmarshal(lines.Bytes(), &said) == nil && (said.Level == "ERROR" || said.Level == "WARN") {
						fmt.Fprintln(progress, "the portal:", lines.Text())
					}
				}
			}()
			return nil
		}
	}
	return fmt.Errorf("the portal did not start: %s", last)
}

// lookIn makes an administrator's token, in the portal's database, and finds out where that is.
func (p *loaded) lookIn(ctx context.Context) (err error) {
	cfg := config.Portal{DataDir: p.dir}
	url, release, err := existingDatabase(ctx, cfg, newLog(config.Log{Level: "error"}, io.Discard))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	pool, err := db.Open(ctx, url, 2)
	if err != nil {
		return databaseError(err)
	}
	defer pool.Close()
	s, err := newStage(ctx, &portal{Control: control.New(pool, control.Options{})})
	if err != nil {
		return err
	}
	token, err := s.Control.CreateToken(ctx, s.actor, "load", 24*time.Hour)
	p.token, p.database, p.postgres = token.Secret, url, load.PostgresOf(p.cmd.Process.Pid)
	return err
}

// stop ends the portal and removes all that it kept.
func (p *loaded) stop() error {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		forced := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
		_ = p.cmd.Wait() // how it ended is its own matter
		forced.Stop()
	}
	return os.RemoveAll(p.dir)
}
