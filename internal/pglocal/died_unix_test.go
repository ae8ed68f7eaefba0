//go:build unix

package pglocal

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestStartRecoversAfterServerIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startTestServer(t, dir)
	queryValue[int](t, first, "WITH made AS (SELECT lo_from_bytea(4711, 'done')) SELECT count(*) FROM made")
	queryValue[int](t, first, "WITH flushed AS (SELECT pg_switch_wal()) SELECT count(*) FROM flushed")
	if err := first.Stop(contextWithDeadline(t)); err != nil {
		t.Fatal(err)
	}
	helper, pid := startHelper(t, dir, false)
	_ = helper.Process.Kill()
	_ = helper.Wait()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := startTestServer(t, dir)
	if second.Pid() == pid {
		t.Error("the killed server was adopted")
	}
	if got := queryValue[string](t, second, "SELECT convert_from(lo_get(4711), 'UTF8')"); got != "done" {
		t.Errorf("got %q after recovery", got)
	}
}

// diesAndComesBack kills the server and waits until a new one answers at the same address with the same data.
func diesAndComesBack(t *testing.T, s *Server) {
	t.Helper()
	before, address := s.Pid(), s.URL()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var last error
	err := poll(contextWithDeadline(t), func() (bool, error) {
		if s.Pid() == before {
			return false, nil
		}
		last = queryOnce(contextWithDeadline(t), s.socketDir, databaseName, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT lo_get(4711)")
			return err
		})
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("the server is not back: %v (last: %v)", err, last)
	}
	if s.URL() != address {
		t.Errorf("the address is %s now, was %s", s.URL(), address)
	}
}

func TestDeadPostgresRestarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper, pid := startHelper(t, dir, false)
	_ = helper.Process.Kill()
	_ = helper.Wait()
	s := startTestServer(t, dir)
	if s.Pid() != pid {
		t.Fatalf("the server is process %d, want the adopted %d", s.Pid(), pid)
	}
	queryValue[int](t, s, "WITH made AS (SELECT lo_from_bytea(4711, 'done')) SELECT count(*) FROM made")
	queryValue[int](t, s, "WITH flushed AS (SELECT pg_switch_wal()) SELECT count(*) FROM flushed")
	diesAndComesBack(t, s) // the adopted server, which is not a child process
	diesAndComesBack(t, s) // the server that this process has started
	if err := s.Stop(contextWithDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if isRunning(s.Pid()) {
		t.Error("the server runs on after Stop")
	}
}

// A cluster whose files disappear must not be recreated empty.
func TestLostClusterNotRecreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	output := make(logLines, 64)
	s, err := Start(contextWithDeadline(t), Options{Dir: dir, Unsafe: true, DieWithParent: true, Log: slog.New(slog.NewTextHandler(output, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	if err := os.Rename(filepath.Join(dir, "pgdata"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	output.await(t, "cannot be started again yet")
	if _, err := os.Stat(filepath.Join(dir, "pgdata")); !os.IsNotExist(err) {
		t.Errorf("an empty cluster replaced the lost data: %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "pgdata")); err != nil {
		t.Fatal(err)
	}
	output.await(t, "started the private PostgreSQL")
}

// logLines is a log writer that passes each line to a waiting test.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

func (l logLines) await(t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-contextWithDeadline(t).Done():
			t.Fatalf("log line %q missing", text)
		}
	}
}
