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

// loadPortal is a portal in a process of its own, so that the load command can measure its CPU time and memory.
type loadPortal struct {
	cmd        *exec.Cmd
	dir        string
	url, token string
	database   string
	postgres   int // process ID of PostgreSQL
}

// startLoadPortal starts this program as a portal with default settings, in a temporary directory.
func startLoadPortal(ctx context.Context, progress io.Writer) (p *loadPortal, err error) {
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
	p = &loadPortal{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	settings := filepath.Join(dir, "portal.yaml")
	// PostgreSQL runs as another user, which must be able to enter the directory.
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(settings, nil, 0o600)); err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "Starting a temporary portal with a private PostgreSQL …")
	p.cmd = exec.Command(self, "portal", "--config", settings, "--data-dir", dir, "--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0", "--log-format", "json")
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "QUANTIX_") })
	p.cmd.SysProcAttr = ownProcessGroup() // Ctrl-C reaches only this program, which then stops the portal
	log, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.cmd = nil
		return nil, err
	}
	if err := p.awaitStart(log, progress); err != nil {
		return nil, err
	}
	return p, p.connect(ctx)
}

// awaitStart reads the portal's log until the portal has started. From then on it forwards the log's warnings and
// errors to progress.
func (p *loadPortal) awaitStart(log io.Reader, progress io.Writer) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	var last string
	for lines.Scan() {
		var entry struct{ Msg, URL, Level string }
		last = lines.Text()
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "portal is running" {
			p.url = entry.URL
			go func() {
				for lines.Scan() {
					if json.Unmarshal(lines.Bytes(), &entry) == nil && (entry.Level == "ERROR" || entry.Level == "WARN") {
						fmt.Fprintln(progress, "the portal:", lines.Text())
					}
				}
			}()
			return nil
		}
	}
	return fmt.Errorf("the portal did not start: %s", last)
}

// connect opens the portal's database, creates an administrator's API token and records the database's URL and process.
func (p *loadPortal) connect(ctx context.Context) (err error) {
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
	s, err := newSetup(ctx, &portal{Control: control.New(pool, control.Options{})})
	if err != nil {
		return err
	}
	token, err := s.Control.CreateToken(ctx, s.actor, "load", 24*time.Hour)
	p.token, p.database, p.postgres = token.Secret, url, load.PostgresPID(p.cmd.Process.Pid)
	return err
}

// stop ends the portal and removes its directory.
func (p *loadPortal) stop() error {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		forced := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
		_ = p.cmd.Wait() // the exit status does not matter
		forced.Stop()
	}
	return os.RemoveAll(p.dir)
}
