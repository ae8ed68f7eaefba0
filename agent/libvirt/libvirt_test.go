//go:build linux

package libvirt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/agent/libvirt"
	"quantix/agent/pooldir"
	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/lab"
	"quantix/internal/testkit/tier"
)

// insideLabHostEnv is an environment variable of the copy of the test program that runs inside a lab host. In that
// process all paths are paths of the lab host. The value lists the libvirt sockets of the host and, in the long tests,
// of a second host.
const insideLabHostEnv = "QUANTIX_TEST_INSIDE_HOST"

// errNoLabHost is the reason why this machine cannot run a lab host. Tests that need a lab host then fail.
var errNoLabHost error

// Hooks that an init function of the long tests sets.
var (
	// runAsChild runs the child agent if this process was started as a child agent; otherwise ran is false.
	runAsChild = func() (ran bool, err error) { return false, nil }
	// prepareLabHost prepares the lab host before the tests.
	prepareLabHost = func() error { return nil }
)

func TestMain(m *testing.M) {
	if ran, err := runAsChild(); ran {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(insideLabHostEnv) != "" {
		if err := prepareLabHost(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if errNoLabHost = lab.Supported(); errNoLabHost != nil {
		os.Exit(m.Run())
	}
	code, err := runInLabHost()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runInLabHost runs this test program inside a lab host, and in the long tests with a second host.
func runInLabHost() (code int, err error) {
	release, err := tier.AcquireGuestSlot()
	if err != nil {
		return 0, err
	}
	defer release()
	dir, err := os.MkdirTemp("", "qxhv")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	hosts := make([]*lab.Host, 1)
	if tier.Ordeal {
		hosts = make([]*lab.Host, 2)
	}
	var sockets []string
	for i := range hosts {
		hosts[i], err = lab.StartHost(ctx, lab.Options{
			Dir: filepath.Join(dir, strconv.Itoa(i)), Name: fmt.Sprintf("hvtest-%d", i), Peers: []string{"hvtest-0", "hvtest-1"}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, hosts[i].Stop(ctx)) }()
		sockets = append(sockets, hosts[i].Socket())
	}
	cmd := hosts[0].Command(ctx, os.Args[0], os.Args[1:]...)
	cmd.Env = append(cmd.Env, insideLabHostEnv+"="+strings.Join(sockets, " "), tier.SeedVariable+"="+strconv.Itoa(tier.Seed()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), err
}

func requireLabHost(t testing.TB) {
	t.Helper()
	if errNoLabHost != nil {
		t.Fatal(errNoLabHost) // an untested backend must not pass
	}
}

func TestConformance(t *testing.T) {
	requireLabHost(t)
	conformance.Run(t, conformance.Harness{
		OnlyCoreTests:     !tier.Ordeal,
		Open:              openBackend,
		PoolPath:          func(t *testing.T) string { return filepath.Join(t.TempDir(), "pool") },
		FailingPool:       failingPool,
		ForbiddenPoolPath: "/var/lib/libvirt/secrets",
		ReplacePoolDir:    replacePoolDir,
		AddImage:          addImage,
		UnusedDisk:        physicalDisk,
		AddOverlay: func(t *testing.T, p fleet.Pool, name, base string) {
			run(t, "qemu-img", "create", "-f", "qcow2", "-b", filepath.Join(p.Spec.Path, base), "-F", "qcow2", filepath.Join(p.Spec.Path, name))
			virsh(t, "pool-refresh", p.Name)
		},
		ServeFile:         remoteImage,
		DefineUnmanagedVM: defineUnmanagedVM,
		DefineAdoptableVM: defineAdoptableVM,
		DefinitionsOf:     definitionsOf,
		PowerOf:           powerOf,
		PowerOff:          func(t *testing.T, id fleet.VMID) { virsh(t, "destroy", string(id)) },
		EditVM:            editVM,
		SaveDefinition: func(t *testing.T, id fleet.VMID) func() {
			file := filepath.Join(t.TempDir(), "kept.xml")
			if err := os.WriteFile(file, []byte(virsh(t, "dumpxml", string(id), "--inactive", "--security-info")), 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { virsh(t, "define", file) }
		},
		UndefineVM: func(t *testing.T, id fleet.VMID) { virsh(t, "undefine", string(id)) },
		HideVolume: hideVolume, LinkVolume: linkVolume,
		DeleteVolume: func(t *testing.T, pool fleet.Pool, volume string) {
			virsh(t, "vol-delete", volume, "--pool", pool.Name)
		},
		WriteKeepingTime: func(t *testing.T, pool fleet.Pool, volume string) {
			path := filepath.Join(pool.Spec.Path, volume)
			info := must(os.Stat(path))
			f := must(os.OpenFile(path, os.O_WRONLY, 0))
			_ = must(f.WriteAt([]byte("x"), info.Size()-1))
			if err := errors.Join(f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
				t.Fatal(err)
			}
		},
		WriteQcow2Header: guestWrites,
		WriteDisk:        writeDisk, ReadDisk: readDisk,
		CheckDisk:             checkChain,
		TakeUnmanagedSnapshot: takeVirshSnapshot, CreateUnmanagedOverlay: createVirshOverlay,

		FirstBootData: seedContents, DeleteFirstBootData: dropSeeds,
		EditFilter:          editFilter,
		UndefineFilter:      func(t *testing.T, name string) { virsh(t, "nwfilter-undefine", name) },
		DefineUnmanagedPool: defineUnmanagedPool,
		PoolDefinition: func(t *testing.T, name string) string {
			sizes := regexp.MustCompile(`(?m)^ *<(capacity|allocation|available) .*\n`) // measured, not part of the definition
			return sizes.ReplaceAllString(virsh(t, "pool-dumpxml", name, "--inactive"), "")
		},
		NetworkDefinition: func(t *testing.T, name string) string { return virsh(t, "net-dumpxml", name, "--inactive") },
		StopPool:          func(t *testing.T, p fleet.Pool) { virsh(t, "pool-destroy", p.Name) },
		StopNetwork:       func(t *testing.T, name string) { virsh(t, "net-destroy", name) }, UndefineNetwork: func(t *testing.T, name string) { virsh(t, "net-undefine", name) },
		EditNetwork: func(t *testing.T, name string) {
			virsh(t, "net-update", name, "add", "ip-dhcp-host", "<host mac='52:54:00:00:00:aa' name='theirs' ip='"+unleasedAddress(t, name)+"'/>", "--live", "--config")
		},
		EditPool: func(t *testing.T, name, path string) {
			file := filepath.Join(t.TempDir(), "pool.xml")
			x := regexp.MustCompile(`<path>[^<]*</path>`).ReplaceAllString(virsh(t, "pool-dumpxml", name, "--inactive"), "<path>"+path+"</path>")
			if err := os.WriteFile(file, []byte(x), 0o600); err != nil {
				t.Fatal(err)
			}
			virsh(t, "pool-define", file)
		},
		Reservations: reservations, DropReservations: dropReservations, PortGroups: portGroups,
		KillDnsmasq: killDnsmasq, DefineUnmanagedNetwork: defineUnmanagedNetwork,
		AddBootableVolume: func(t *testing.T, p fleet.Pool, name string) {
			guest := must(lab.GuestImage(t.Context(), lab.CacheDir()))
			run(t, "cp", guest.Disk, filepath.Join(p.Spec.Path, name))
			virsh(t, "pool-refresh", p.Name)
		},
		PrepareGuest: prepareGuest, IsGuestFrozen: isGuestFrozen, GuestHasPassword: guestHasPassword,
		ActiveNetwork: "default", UnusedNetworkDevice: unusedVeth,
		DisconnectHypervisor: func(t *testing.T) func() {
			stopLibvirtd(t)
			return func() { startLibvirtd(t) }
		},
		FreezeHypervisor: func(t *testing.T) func() {
			pid := libvirtdPID(t)
			signalProcess(t, pid, syscall.SIGSTOP)
			t.Cleanup(func() { signalProcess(t, pid, syscall.SIGCONT) })
			return func() { signalProcess(t, pid, syscall.SIGCONT) }
		},
	})
}

// applyJob returns the agent's apply job for the VM.
func applyJob(vm fleet.VM, pools ...fleet.Pool) hypervisor.ApplyWork {
	return hypervisor.ApplyWork{VM: vm, Pools: pools, Progress: func(int, string) {}, RecordDisk: func(fleet.Volref) error { return nil }}
}

// openBench opens a backend for a benchmark.
func openBench(b *testing.B) hypervisor.Hypervisor {
	b.Helper()
	requireLabHost(b)
	hv, err := libvirt.Open(b.Context(), libvirt.Options{Log: slog.New(slog.DiscardHandler), PoolRoots: tempDirRoots, PoolBook: sharedPoolBook})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { hv.Close() })
	return hv
}

// All backends of the tests share one PoolBook (the agent's records of pools). The pools are in temporary directories
// of the tests.
var (
	sharedPoolBook = must(state.OpenPoolRecords(""))
	tempDirRoots   = pooldir.PoolRoots{Allowed: []string{os.TempDir()}}
)

func openBackend(t *testing.T) hypervisor.Hypervisor {
	t.Helper()
	return openBackendAt(t, libvirt.DefaultSocket)
}

func openBackendAt(t *testing.T, socket string) hypervisor.Hypervisor {
	t.Helper()
	return openBackendWithBook(t, socket, sharedPoolBook)
}

func openBackendWithBook(t *testing.T, socket string, book *state.PoolRecords) hypervisor.Hypervisor {
	t.Helper()
	return openBackendWith(t, libvirt.Options{Socket: socket, PoolBook: book})
}

// openBackendWith opens a backend with options for tests.
func openBackendWith(t *testing.T, o libvirt.Options) hypervisor.Hypervisor {
	t.Helper()
	requireLabHost(t)
	o.Log, o.PoolRoots, o.Downloader = slog.New(slog.NewTextHandler(testLog{t}, nil)), tempDirRoots, testDownloader
	b, err := libvirt.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// testLog writes log lines to the test's output while the test runs.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// failingPool returns a pool whose directory is below a regular file.
func failingPool(t *testing.T) (fleet.PoolSpec, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(file, "pool")}, "Not a directory"
}

func addImage(t *testing.T, pool fleet.Pool, image conformance.Image) {
	t.Helper()
	path := filepath.Join(pool.Spec.Path, image.Name)
	raw := filepath.Join(t.TempDir(), "raw")
	text := bytes.Repeat([]byte("quantix "), 1<<17)
	copy(text, "\xeb\x63\x90\x00") // starts like a boot sector, because plain text is no image
	if err := os.WriteFile(raw, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(raw, image.SizeBytes); err != nil {
		t.Fatal(err)
	}
	switch image.Kind {
	case conformance.Raw:
		run(t, "qemu-img", "convert", "-f", "raw", "-O", "raw", raw, path)
	case conformance.Qcow2:
		run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path)
	case conformance.Qcow2Truncated:
		run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()*9/10)
		}
		if err != nil {
			t.Fatal(err)
		}
	case conformance.ISO:
		writeDisc(t, path, image.SizeBytes)
	case conformance.DirectoryImage:
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	case conformance.LinkedISO:
		writeDisc(t, raw+".iso", image.SizeBytes)
		if err := os.Symlink(raw+".iso", path); err != nil {
			t.Fatal(err)
		}
	case conformance.Qcow2Backing:
		run(t, "qemu-img", "create", "-f", "qcow2", "-b", raw, "-F", "raw", path)
	case conformance.Qcow2Data:
		run(t, "qemu-img", "create", "-f", "qcow2", "-o", "data_file="+raw+".data,data_file_raw=on", path, strconv.FormatInt(image.SizeBytes, 10))
	}
}

// writeDisc writes a file with an ISO 9660 volume descriptor.
func writeDisc(t *testing.T, path string, size int64) {
	t.Helper()
	text := make([]byte, size)
	copy(text[16*2048:], "\x01CD001\x01")
	copy(text[17*2048:], "\xffCD001\x01")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// defineUnmanagedVM defines and starts a VM as virsh does.
func defineUnmanagedVM(t *testing.T, name string) fleet.VMID {
	t.Helper()
	xml := filepath.Join(t.TempDir(), "domain.xml")
	text := `<domain type='qemu'><name>` + name + `</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type></os><devices><graphics type='vnc'><listen type='socket'/></graphics></devices><metadata><app:x xmlns:app="http://example.org/app">kept</app:x></metadata></domain>`
	if err := os.WriteFile(xml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", xml)
	t.Cleanup(func() { virsh(t, "undefine", name) })
	virsh(t, "start", name)
	t.Cleanup(func() { virsh(t, "destroy", name) })
	return fleet.VMID(virsh(t, "domuuid", name))
}

func diskFormat(path string) string {
	if fleet.IsRawName(path) {
		return fleet.Raw
	}
	return "qcow2"
}

func writeDisk(t *testing.T, path string, b byte) {
	t.Helper()
	run(t, "qemu-io", "-f", diskFormat(path), "-c", fmt.Sprintf("write -P %d 0 64k", b), path)
}

func readDisk(t *testing.T, path string) byte {
	t.Helper()
	out := run(t, "qemu-io", "-r", "-f", diskFormat(path), "-c", "read -v 0 16", path)
	_, out, _ = strings.Cut(out, "00000000:")
	return byte(must(strconv.ParseUint(strings.Fields(out)[0], 16, 8)))
}
