package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"quantix/internal/pglocal"
)

// machine is the package's access to the computer. Tests use a fake machine.
type machine struct {
	goos         string
	root         fs.FS // file system of the machine, from "/"
	path         []string
	privileged   bool // the process runs as root
	dial         func(ctx context.Context, socket string) error
	open         func(device string) error
	findPostgres func() (dir string, err error)
	run          func(ctx context.Context, out io.Writer, env []string, name string, args ...string) error
	policyFile   string // invoke-rc.d runs this program before it starts a service
}

func thisMachine() *machine {
	return &machine{
		goos:       runtime.GOOS,
		root:       os.DirFS("/"),
		path:       filepath.SplitList(os.Getenv("PATH")),
		privileged: os.Geteuid() == 0,
		dial: func(ctx context.Context, socket string) error {
			conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "unix", socket)
			if err != nil {
				return err
			}
			return conn.Close()
		},
		open: func(device string) error {
			f, err := os.OpenFile(device, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return f.Close()
		},
		findPostgres: pglocal.FindBinaries,
		run: func(ctx context.Context, out io.Writer, env []string, name string, args ...string) error {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = append(os.Environ(), env...)
			cmd.Stdout, cmd.Stderr = out, out
			// A killed package manager leaves half-installed packages, so interrupt it first.
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = time.Minute
			return cmd.Run()
		},
		policyFile: "/usr/sbin/policy-rc.d",
	}
}

func (m *machine) inspect(ctx context.Context, p Purpose) []Check {
	checks, _ := m.checkAll(ctx, p)
	return checks
}

// checkAll returns every check for the purpose, and the required items that are missing.
func (m *machine) checkAll(ctx context.Context, p Purpose) (checks []Check, missing []requirement) {
	for _, n := range requirements {
		if !n.appliesTo(p) {
			continue
		}
		c := Check{Name: n.name, Why: n.why, Packages: n.debian, Optional: !slices.Contains(n.required, p)}
		if c.Found, c.OK = m.probe(ctx, n); !c.OK {
			c.Fix = m.fixOf(n)
			if !c.Optional {
				missing = append(missing, n)
			}
		}
		checks = append(checks, c)
	}
	return checks, missing
}

func (m *machine) probe(ctx context.Context, n requirement) (found string, ok bool) {
	if n.probe != nil {
		return n.probe(ctx, m)
	}
	for _, name := range n.programs {
		if found, ok := m.findProgram(name); ok {
			return found, true
		}
	}
	for _, pattern := range n.files {
		if found, _ := fs.Glob(m.root, pattern); len(found) > 0 { // Glob fails only for an invalid pattern
			return "/" + found[0], true
		}
	}
	return "", false
}

// findProgram looks for a program in the PATH and also in the sbin directories, which a user's PATH often lacks.
func (m *machine) findProgram(name string) (found string, ok bool) {
	dirs := append(slices.Clone(m.path), "/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin")
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		full := path.Join(dir, name)
		info, err := fs.Stat(m.root, strings.TrimPrefix(full, "/"))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, true
		}
	}
	return "", false
}

func probePostgres(_ context.Context, m *machine) (string, bool) {
	dir, err := m.findPostgres()
	return dir, err == nil
}

func probeLinux(_ context.Context, m *machine) (string, bool) { return m.goos, m.goos == "linux" }

func probeAdministrator(_ context.Context, m *machine) (string, bool) { return "", m.privileged }

func probeLibvirtSocket(ctx context.Context, m *machine) (string, bool) {
	for _, socket := range []string{"/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"} {
		if m.dial(ctx, socket) == nil {
			return socket, true
		}
	}
	return "", false
}

func probeKVM(_ context.Context, m *machine) (string, bool) {
	const device = "/dev/kvm"
	return device, m.open(device) == nil
}

// probeStaticBusybox refuses a dynamically linked busybox, because the lab's guest has no libraries.
func probeStaticBusybox(_ context.Context, m *machine) (string, bool) {
	for _, name := range []string{"busybox", "busybox.static", "busybox-static"} {
		found, ok := m.findProgram(name)
		if !ok {
			continue
		}
		text, err := fs.ReadFile(m.root, strings.TrimPrefix(found, "/"))
		if err == nil && isStaticallyLinked(text) {
			return found, true
		}
	}
	return "", false
}

func isStaticallyLinked(program []byte) bool {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
