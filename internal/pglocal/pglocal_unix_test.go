//go:build unix

package pglocal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// helperDir names the environment variable that makes the test binary start a server on the named directory, print its
// PID, and wait until it is killed.
const helperDir = "QUANTIX_TEST_PGLOCAL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		s, err := Start(context.Background(), Options{Dir: dir, Unsafe: true, DieWithParent: os.Getenv(helperDir+"_DIES") != ""})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.Pid())
		select {}
	}
	os.Exit(m.Run())
}

// startHelper returns a process that has started a server on dir, and the server's PID.
func startHelper(t *testing.T, dir string, dies bool) (helper *exec.Cmd, pid int) {
	t.Helper()
	helper = exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperDir+"="+dir)
	if dies {
		helper.Env = append(helper.Env, helperDir+"_DIES=1")
	}
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = helper.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the helper said %q", line)
	}
	t.Cleanup(func() { // the helper still runs only if the test has failed
		if isPostmaster(pid, filepath.Join(dir, "pgdata"), os.Getuid()) {
			_ = syscall.Kill(pid, syscall.SIGQUIT)
		}
	})
	return helper, pid
}

func contextWithDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startTestServer(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(contextWithDeadline(t), Options{Dir: dir, Unsafe: true, DieWithParent: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func queryValue[T any](t *testing.T, s *Server, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(contextWithDeadline(t), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(contextWithDeadline(t), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestStartCreatesClusterAndDatabase(t *testing.T) {
	t.Parallel()
	s := startTestServer(t, t.TempDir())
	for sql, want := range map[string]string{
		"SELECT current_database() || ' ' || current_user":                                                     "quantix quantix",
		"SELECT pg_encoding_to_char(encoding) || ' ' || datcollate FROM pg_database WHERE datname = 'quantix'": "UTF8 C",
		"SHOW listen_addresses":        "",
		"SHOW timezone":                "UTC",
		"SHOW max_connections":         "100",
		"SHOW unix_socket_permissions": "0700",
		"SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user": "true",
	} {
		if got := queryValue[string](t, s, sql); got != want {
			t.Errorf("%s = %q, want %q", sql, got, want)
		}
	}
	if info, err := os.Stat(s.socketDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory: %v, %v", info, err)
	}
	// Ctrl-C signals the terminal's foreground process group, so the server must have a process group of its own.
	if group, err := syscall.Getpgid(s.Pid()); err != nil || group != s.Pid() {
		t.Errorf("the server's process group is %d (%v), want its own, %d", group, err, s.Pid())
	}
}

func TestStopAndStartKeepsData(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "quantix-pglocal-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	first := startTestServer(t, dir)
	if first.socketDir != filepath.Join(dir, "run") {
		t.Errorf("the socket is in %s, want it in the data directory, which all users may enter", first.socketDir)
	}
	queryValue[int](t, first, "WITH made AS (SELECT lo_from_bytea(4711, 'done')) SELECT count(*) FROM made")
	if err := first.Stop(contextWithDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if processExists(first.Pid()) {
		t.Errorf("the server (pid %d) is still there after Stop", first.Pid())
	}
	if err := first.Stop(contextWithDeadline(t)); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
	if got := queryValue[string](t, startTestServer(t, dir), "SELECT convert_from(lo_get(4711), 'UTF8')"); got != "done" {
		t.Errorf("got %q after the second start", got)
	}
}

func TestStopAbortsHangingServer(t *testing.T) {
	t.Parallel()
	s := startTestServer(t, t.TempDir())
	if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if isRunning(s.Pid()) {
		t.Error("the server is still there")
	}
}

func TestStartRefusedWithoutUsableProgramsOrData(t *testing.T) {
	t.Parallel()
	binaries, err := FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	file := func(path, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			data := filepath.Join(dir, "pgdata")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(data, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if o, err := unprivilegedOwner(); os.Getuid() == 0 && err == nil {
				if err := os.Chown(data, o.uid, o.gid); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		find    programSearch
		want    string
	}{
		"PostgreSQL is not installed": {
			func(*testing.T, string) {}, programSearch{path: []string{"/nonexistent"}, osRelease: "ID=debian\n"}, "apt-get install -y postgresql",
		},
		"data of another PostgreSQL version": {
			file("PG_VERSION", "9.4\n"), programSearch{path: []string{binaries}}, "was made by PostgreSQL 9.4, but this machine has PostgreSQL",
		},
		"directory with other files": {
			file("thesis.txt", "mine"), programSearch{path: []string{binaries}}, "is not empty and contains no PostgreSQL cluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.prepare(t, dir)
			_, err := start(contextWithDeadline(t), Options{Dir: dir}, c.find)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestStartReturnsWhenContextExpires(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := newCluster(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := c.tryLockDirectory()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func processExists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
