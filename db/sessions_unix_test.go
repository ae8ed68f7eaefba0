//go:build unix

package db_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/testkit"
)

// startPooler starts PgBouncer in front of a database and returns the URL of the pooler.
func startPooler(t *testing.T, to, mode string) string {
	t.Helper()
	behind, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "quantix-pooler-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := behind.Query().Get("host")
	owner, err := os.Stat(socket)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	line, lineErr := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, lineErr); err != nil {
		t.Fatal(err)
	}
	at := line.Addr().(*net.TCPAddr)
	line.Close()
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n",
		socket, behind.Query().Get("port"), behind.User.Username(), at.Port, mode)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	cmd := exec.Command(program, "-q", file)
	if s, ok := owner.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Getuid() {
		// The socket is accessible only to the server's user, and PgBouncer refuses to run as root.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.Uid, Gid: s.Gid}}
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", at.String())
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
	through := url.URL{Scheme: "postgres", User: behind.User, Host: at.String(), Path: behind.Path, RawQuery: "sslmode=disable"}
	return through.String()
}

func TestTransactionPoolerIsRefused(t *testing.T) {
	t.Parallel()
	to := testkit.EmptyDatabaseURL(t)
	if err := db.CheckSessionMode(t.Context(), to); err != nil {
		t.Errorf("PostgreSQL itself: %v", err)
	}
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			through := startPooler(t, to, mode)
			err := db.CheckSessionMode(t.Context(), through)
			if mode != "session" {
				if !errors.Is(err, db.ErrTransactionPooler) {
					t.Errorf("no ErrPooled: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Migrate(t.Context(), through); err != nil {
				t.Fatal(err)
			}
			pool, err := db.Open(t.Context(), through, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var limit string
			if err := pool.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit); err != nil || limit != "10s" {
				t.Errorf("statement_timeout is %q: %v", limit, err)
			}
		})
	}
}

// Idle server connections of another client must not hide that the pooler is in transaction mode.
func TestBusyTransactionPoolerIsDetected(t *testing.T) {
	t.Parallel()
	through := startPooler(t, testkit.EmptyDatabaseURL(t), "transaction")
	pool, err := db.Open(t.Context(), through, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var busy []*pgxpool.Conn
	for range 5 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil { // forces a separate server connection for each client connection
			t.Fatal(err)
		}
		busy = append(busy, conn)
	}
	for _, conn := range busy {
		if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CheckSessionMode(t.Context(), through); !errors.Is(err, db.ErrTransactionPooler) {
		t.Errorf("no ErrPooled: %v", err)
	}
}
