//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// errMemoryInUse means that child processes of a killed postmaster still use its shared memory until they exit.
var errMemoryInUse = errors.New("the shared memory of the last server is still in use")

// launch starts the postmaster and waits until it accepts connections.
func (c *cluster) launch(ctx context.Context) (*postmaster, error) {
	var s *postmaster
	err := poll(ctx, func() (bool, error) {
		var err error
		s, err = c.launchOnce(ctx)
		if errors.Is(err, errMemoryInUse) {
			return false, nil
		}
		return true, err
	})
	return s, err
}

func (c *cluster) launchOnce(ctx context.Context) (*postmaster, error) {
	cmd, path, err := c.command("postgres", c.data)
	if err != nil {
		return nil, err
	}
	defer closeFiles(cmd)
	socketDir, err := c.makeSocketDir(path == c.data)
	if err != nil {
		return nil, err
	}
	logPath := filepath.Join(c.dir, "postgres-start.log")
	startLog, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer startLog.Close()
	cmd.Stdout, cmd.Stderr = startLog, startLog
	cmd.Args = append(cmd.Args, "-D", path)
	for _, setting := range c.serverSettings(socketDir) {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	if stale, ok := readPidFile(c.data); ok {
		// Another program may now have the PID in a stale pid file. With this variable, the postmaster does not mistake that
		// program for a server on this data directory. The postmaster still checks the shared memory.
		cmd.Env = append(cmd.Env, "PG_GRANDPARENT_PID="+strconv.Itoa(stale.pid))
	}
	// Setsid detaches the server from the terminal, because Ctrl-C for the portal must not reach the database.
	cmd.SysProcAttr.Setsid = true
	if c.DieWithParent {
		setDeathSignal(cmd.SysProcAttr)
	}
	exited, err := startOnOwnThread(cmd)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	s := &postmaster{pid: cmd.Process.Pid, data: c.data, socketDir: socketDir, exited: exited, log: c.Log}
	if err := s.waitReady(ctx); err != nil {
		text, _ := os.ReadFile(logPath) // if the file is unreadable, the error has no excerpt of the log
		if strings.Contains(string(text), "pre-existing shared memory block") {
			return nil, errMemoryInUse
		}
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("%w; its output: %s (see also %s)", err, lastLines(string(text), 5),
			filepath.Join(c.data, "log")), s.stop(stopCtx))
	}
	c.Log.Info("started the private PostgreSQL", "dir", c.data, "pid", s.pid)
	return s, nil
}

// startOnOwnThread starts cmd on a thread that exists as long as the child process. Linux sends the parent-death signal
// when the forking thread ends, possibly long before its process.
func startOnOwnThread(cmd *exec.Cmd) (exited <-chan struct{}, err error) {
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log shows how the process ended
		}
		close(done)
	}()
	return done, <-started
}

// serverSettings returns the settings that override postgresql.conf. An administrator may set all other settings in
// that file.
func (c *cluster) serverSettings(socketDir string) []string {
	list := []string{
		"listen_addresses=",
		"unix_socket_directories=" + `"` + strings.ReplaceAll(socketDir, `"`, `""`) + `"`,
		"unix_socket_permissions=0700",
		"port=" + port,
		"max_connections=" + strconv.Itoa(c.MaxConnections),
		"shared_buffers=128MB",
		"timezone=UTC", "log_timezone=UTC",
		// One log file for each weekday, truncated a week later. Statements are not logged, because they may contain
		// user input.
		"logging_collector=on", "log_destination=stderr", "log_directory=log", "log_filename=postgresql-%a.log",
		"log_rotation_age=1d", "log_rotation_size=0", "log_truncate_on_rotation=on",
		"log_min_error_statement=panic", "log_line_prefix=%m [%p] ",
	}
	if c.Unsafe {
		return append(list, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	}
	return append(list, "fsync=on", "full_page_writes=on", "synchronous_commit=on")
}

// waitReady waits until this server answers. It returns an error if the server ends or ctx ends first.
func (s *postmaster) waitReady(ctx context.Context) error {
	var last error
	err := poll(ctx, func() (bool, error) {
		if !s.isAlive() {
			return false, fmt.Errorf("the PostgreSQL server (pid %d) ended", s.pid)
		}
		file, ok := readPidFile(s.data)
		if !ok || file.pid != s.pid || (file.status != "ready" && file.status != "standby") {
			last = errors.New("the server has not reported that it is ready")
			return false, nil
		}
		s.socketDir = file.socketDir
		last = s.checkServer(ctx)
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the PostgreSQL server (pid %d) does not answer on %s: %w (last: %w)", s.pid, s.socketDir, err, last)
	}
	return err
}

// checkServer checks that the server at the socket answers and that it runs on this data directory.
func (s *postmaster) checkServer(ctx context.Context) error {
	return queryOnce(ctx, s.socketDir, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		var pid string
		err := conn.QueryRow(ctx, `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)`).Scan(&pid)
		if err == nil && strings.TrimSpace(pid) != strconv.Itoa(s.pid) {
			return fmt.Errorf("the server on %s has pid %s, not %d", s.socketDir, pid, s.pid)
		}
		return err
	})
}
