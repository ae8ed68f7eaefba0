//go:build linux && ordeal

package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"quantix/internal/pglocal"
)

// postgresServer is a PostgreSQL server as an operator runs it: on TCP, possibly with a standby.
type postgresServer struct {
	t       *testing.T
	dir     string
	address string
	pid     int
}

// newPrimary starts a server with an empty database named quantix.
func newPrimary(t *testing.T, dir string) *postgresServer {
	t.Helper()
	p := &postgresServer{t: t, dir: dir, address: freeAddress(t)}
	p.run("initdb", "-D", dir, "-U", "quantix", "-A", "trust", "--no-sync")
	p.start()
	p.sql("postgres", "CREATE DATABASE quantix")
	return p
}

// startStandby starts a standby of p. From then on, p commits only what the standby has received.
func (p *postgresServer) startStandby(dir string) *postgresServer {
	p.t.Helper()
	s := &postgresServer{t: p.t, dir: dir, address: freeAddress(p.t)}
	host, port, _ := net.SplitHostPort(p.address)
	s.run("pg_basebackup", "-D", dir, "-R", "-X", "stream", "-c", "fast", "-U", "quantix", "-h", host, "-p", port)
	s.start()
	p.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
	p.sql("postgres", "SELECT pg_reload_conf()")
	return s
}

// postgresUser returns the credentials for PostgreSQL's programs, which refuse to run as root.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	owner, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.Atoi(owner.Uid)
	gid, gidErr := strconv.Atoi(owner.Gid)
	if uidErr != nil || gidErr != nil {
		t.Fatal(owner)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (p *postgresServer) program(name string, args ...string) *exec.Cmd {
	p.t.Helper()
	bin, err := pglocal.FindBinaries()
	if err == nil { // PATH may have links to only some of the programs; the others are in the links' target directory
		bin, err = filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := cleanCommand(p.t.Context(), filepath.Join(filepath.Dir(bin), name), args...)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: postgresUser(p.t), Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

func (p *postgresServer) run(name string, args ...string) {
	p.t.Helper()
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Chown(p.dir, int(postgresUser(p.t).Uid), int(postgresUser(p.t).Gid)); err != nil {
		p.t.Fatal(err)
	}
	if out, err := p.program(name, args...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v: %s", name, err, out)
	}
}

func (p *postgresServer) start() {
	p.t.Helper()
	host, port, _ := net.SplitHostPort(p.address)
	cmd := p.program("postgres", "-D", p.dir, "-c", "listen_addresses="+host, "-c", "port="+port, "-c", "unix_socket_directories=", "-c", "fsync=off")
	log, err := os.Create(p.dir + ".log")
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	gone := startDaemon(p.t, cmd, log.Name())
	p.pid = cmd.Process.Pid
	p.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-gone
		log.Close()
	})
	eventually(p.t, stepLimit, "PostgreSQL's start", func() (bool, string) {
		conn, err := p.connect("postgres")
		if err != nil {
			return false, err.Error()
		}
		return conn.Close(context.Background()) == nil, ""
	})
}

// startDaemon starts a program that ends with the test. The returned channel is closed when the program has ended.
func startDaemon(t *testing.T, cmd *exec.Cmd, log string) <-chan struct{} {
	t.Helper()
	started, gone := make(chan error), make(chan struct{})
	onOwnThread(func() { // Pdeathsig needs a dedicated thread: see launch
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(gone)
		}
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, log)
		}
	})
	return gone
}

// signal sends the signal to the server and all its processes.
func (p *postgresServer) signal(s syscall.Signal) {
	for _, pid := range append([]int{p.pid}, childrenOf(p.pid)...) {
		_ = syscall.Kill(pid, s)
	}
}

func (p *postgresServer) connect(database string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	return pgx.Connect(ctx, "postgres://quantix@"+p.address+"/"+database+"?sslmode=disable")
}

// sql runs a statement and returns its first value as text.
func (p *postgresServer) sql(database, statement string) (value string) {
	p.t.Helper()
	conn, err := p.connect(database)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	results, err := conn.PgConn().Exec(p.t.Context(), statement).ReadAll()
	if err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
	if len(results) > 0 && len(results[0].Rows) > 0 {
		value = string(results[0].Rows[0][0])
	}
	return value
}
