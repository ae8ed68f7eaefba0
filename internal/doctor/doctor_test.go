package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// fakeMachine is a machine in memory: a Debian system, used as root, that meets none of the requirements.
type fakeMachine struct {
	machine
	files fstest.MapFS
	ran   []string
}

func newFake(t *testing.T) *fakeMachine {
	t.Helper()
	f := &fakeMachine{files: fstest.MapFS{"etc/os-release": {Data: []byte("ID=debian\n")}}}
	f.machine = machine{
		goos: "linux", root: f.files, path: []string{"/usr/bin"}, privileged: true,
		dial:         func(context.Context, string) error { return errors.New("nobody listens") },
		open:         func(string) error { return os.ErrNotExist },
		findPostgres: func() (string, error) { return "", errors.New("none") },
		run: func(_ context.Context, _ io.Writer, _ []string, name string, args ...string) error {
			f.ran = append(f.ran, name+" "+strings.Join(args, " "))
			return nil
		},
		policyFile: filepath.Join(t.TempDir(), "policy-rc.d"),
	}
	return f
}

func (f *fakeMachine) add(paths ...string) {
	for _, path := range paths {
		f.files[path] = &fstest.MapFile{Mode: 0o755}
	}
}

// addEverything adds all programs and files that the lab and the tests require.
func (f *fakeMachine) addEverything() {
	f.findPostgres = func() (string, error) { return "/usr/lib/postgresql/15/bin", nil }
	for _, n := range requirements {
		for _, name := range n.programs {
			f.add("usr/sbin/" + name)
		}
		for _, pattern := range n.files {
			f.add(strings.ReplaceAll(pattern, "*", "_4M"))
		}
	}
	f.files["usr/bin/busybox"] = &fstest.MapFile{Mode: 0o755, Data: program64(elf.PT_LOAD)}
}

// program64 returns the smallest 64-bit ELF program with one segment of that type.
func program64(segment elf.ProgType) []byte {
	var b bytes.Buffer
	header := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	_ = binary.Write(&b, binary.LittleEndian, header)
	_ = binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(segment)})
	return b.Bytes()
}

func findCheck(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	return checks[i]
}

func TestInspectListsMissingPackages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		purpose Purpose
		want    string
	}{
		{Portal, "postgresql"},
		{Demo, "postgresql"},
		{Agent, "libvirt-daemon-system qemu-system-x86 qemu-utils"},
		{Lab, "postgresql libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils ovmf dnsmasq-base iptables nftables iproute2 util-linux " +
			"cpio gzip busybox-static xorriso isolinux syslinux-common"},
		{Test, "postgresql libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils ovmf dnsmasq-base libvirt-daemon-driver-storage-iscsi-direct libvirt-daemon-driver-storage-rbd qemu-block-extra tgt ceph-mon ceph-osd ceph-common glusterfs-server xfsprogs btrfs-progs e2fsprogs iptables openvswitch-switch swtpm swtpm-tools nftables iproute2 util-linux " +
			"cpio gzip busybox-static xorriso isolinux syslinux-common mmdebstrap fdisk kmod chromium haproxy nginx-light libnginx-mod-stream pgbouncer gcc libc6-dev"},
		{Bench, "postgresql libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils ovmf dnsmasq-base iptables nftables iproute2 util-linux " +
			"cpio gzip busybox-static xorriso isolinux syslinux-common websockify"},
	} {
		t.Run(string(c.purpose), func(t *testing.T) {
			t.Parallel()
			checks, missing := newFake(t).checkAll(t.Context(), c.purpose)
			if got := strings.Join(packagesOf(debian, missing), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for _, check := range checks {
				if check.Why == "" || (check.OK && check.Fix != "") || (!check.OK && check.Fix == "") {
					t.Errorf("a check without its reason or remedy: %+v", check)
				}
			}
			if AllRequiredOK(checks) {
				t.Error("an empty machine is ready")
			}
		})
	}
}

func TestMachineWithAllRequirementsIsReady(t *testing.T) {
	t.Parallel()
	for _, p := range Purposes() {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.addEverything()
			f.dial = func(context.Context, string) error { return nil }
			checks := f.inspect(t.Context(), p)
			if !AllRequiredOK(checks) {
				t.Errorf("not ready: %v", missingError(checks))
			}
			if err := f.install(t.Context(), p, io.Discard); err != nil || len(f.ran) > 0 {
				t.Errorf("install ran %q: %v", f.ran, err)
			}
		})
	}
}

func TestRequirementsFoundInKnownPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		purpose Purpose
		check   string
		prepare func(*fakeMachine)
		found   string // empty: not found
	}{
		"outside a user's PATH": {Lab, "iptables", func(f *fakeMachine) { f.add("usr/sbin/iptables") }, "/usr/sbin/iptables"},
		"a file that is not executable": {Lab, "iptables", func(f *fakeMachine) {
			f.files["usr/sbin/iptables"] = &fstest.MapFile{Mode: 0o644}
		}, ""},
		"Fedora's firmware":  {Lab, "OVMF", func(f *fakeMachine) { f.add("usr/share/edk2/ovmf/OVMF_CODE.fd") }, "/usr/share/edk2/ovmf/OVMF_CODE.fd"},
		"RHEL's QEMU":        {Agent, "QEMU", func(f *fakeMachine) { f.add("usr/libexec/qemu-kvm") }, "/usr/libexec/qemu-kvm"},
		"Chrome":             {Test, "Chromium", func(f *fakeMachine) { f.add("usr/bin/google-chrome") }, "/usr/bin/google-chrome"},
		"the modular daemon": {Agent, "libvirt daemon", func(f *fakeMachine) { f.add("usr/sbin/virtqemud") }, "/usr/sbin/virtqemud"},
		"its socket": {Agent, "libvirt socket", func(f *fakeMachine) {
			f.dial = func(_ context.Context, socket string) error {
				if socket != "/run/libvirt/virtqemud-sock" {
					return os.ErrNotExist
				}
				return nil
			}
		}, "/run/libvirt/virtqemud-sock"},
		"a static busybox": {Lab, "busybox (static)", func(f *fakeMachine) {
			f.files["bin/busybox"] = &fstest.MapFile{Mode: 0o755, Data: program64(elf.PT_LOAD)}
		}, "/bin/busybox"},
		"a dynamically linked busybox": {Lab, "busybox (static)", func(f *fakeMachine) {
			f.files["bin/busybox"] = &fstest.MapFile{Mode: 0o755, Data: program64(elf.PT_INTERP)}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			c.prepare(f)
			got := findCheck(t, f.inspect(t.Context(), c.purpose), c.check)
			if got.Found != c.found || got.OK != (c.found != "") {
				t.Errorf("got %+v, want %q found", got, c.found)
			}
		})
	}
}

func TestKVMIsOptional(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.addEverything()
	f.dial = func(context.Context, string) error { return nil }
	checks := f.inspect(t.Context(), Agent)
	if kvm := findCheck(t, checks, "KVM"); kvm.OK || !kvm.Optional || !AllRequiredOK(checks) {
		t.Errorf("got %+v, ready %v", kvm, AllRequiredOK(checks))
	}
}

func TestInstallOnDebianStartsNoService(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.add("usr/bin/systemctl")
	installed := false
	policyDuring := ""
	enabled := map[string]bool{"virtlogd.socket": true} // the administrator enabled this service before
	f.run = func(_ context.Context, _ io.Writer, env []string, name string, args ...string) error {
		last := args[len(args)-1]
		switch {
		case name == "systemctl" && args[0] == "is-enabled":
			if !enabled[last] {
				return errors.New("disabled")
			}
			return nil
		case name == "systemctl" && args[0] == "disable":
			delete(enabled, last)
			return nil
		}
		f.ran = append(f.ran, name+" "+strings.Join(args, " "))
		if slices.Contains(args, "install") {
			if !slices.Contains(env, "DEBIAN_FRONTEND=noninteractive") {
				return errors.New("it would ask questions")
			}
			text, _ := os.ReadFile(f.policyFile)
			policyDuring = string(text)
			f.findPostgres = func() (string, error) { return "/pg", nil }
			enabled["postgresql.service"], installed = true, true
		}
		return nil
	}
	if err := f.install(t.Context(), Portal, io.Discard); err != nil || !installed {
		t.Fatalf("installed %v: %v", installed, err)
	}
	want := []string{
		"apt-get -o DPkg::Lock::Timeout=300 update",
		"apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends postgresql",
	}
	if !slices.Equal(f.ran, want) {
		t.Errorf("ran %q, want %q", f.ran, want)
	}
	if !strings.Contains(policyDuring, "exit 101") {
		t.Errorf("the policy during the installation: %q", policyDuring)
	}
	if _, err := os.Stat(f.policyFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the policy is still there: %v", err)
	}
	if enabled["postgresql.service"] || !enabled["virtlogd.socket"] {
		t.Errorf("enabled afterwards: %v", enabled)
	}
}

func TestInstallForAgentStartsServices(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.run = func(_ context.Context, _ io.Writer, _ []string, _ string, args ...string) error {
		if _, err := os.Stat(f.policyFile); err == nil {
			t.Error("the services of a real host must start")
		}
		if slices.Contains(args, "install") {
			f.addEverything()
			f.dial = func(context.Context, string) error { return nil }
		}
		return nil
	}
	if err := f.install(t.Context(), Agent, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestInstallPreservesExistingServicePolicyFile(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const own = "#!/bin/sh\nexit 0\n"
	if err := os.WriteFile(f.policyFile, []byte(own), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = f.install(t.Context(), Demo, io.Discard)
	if text, err := os.ReadFile(f.policyFile); err != nil || string(text) != own {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestFailedInstallExplainsRemedy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*fakeMachine)
		purpose Purpose
		want    string
	}{
		"without root": {func(f *fakeMachine) { f.privileged = false }, Portal, "run: sudo apt-get install -y --no-install-recommends postgresql"},
		"on Fedora": {func(f *fakeMachine) {
			f.files["etc/os-release"] = &fstest.MapFile{Data: []byte("ID=fedora\n")}
		}, Agent, "run: dnf install -y libvirt-daemon-kvm qemu-kvm qemu-img"},
		"on a Mac":             {func(f *fakeMachine) { f.goos = "darwin" }, Demo, "run: brew install postgresql@17"},
		"on an unknown system": {func(f *fakeMachine) { delete(f.files, "etc/os-release") }, Demo, "install what Debian calls postgresql"},
		"apt-get fails": {func(f *fakeMachine) {
			f.run = func(_ context.Context, _ io.Writer, _ []string, _ string, args ...string) error {
				return fmt.Errorf("no network for %s", args[2])
			}
		}, Demo, "no network for install"},
		"the package lacks the program": {func(*fakeMachine) {}, Demo, "this machine still lacks:\n  PostgreSQL"},
		"no package has the requirement": {func(f *fakeMachine) {
			f.addEverything()
		}, Agent, "libvirt socket (the agent's way to libvirt): systemctl enable --now libvirtd.socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			c.prepare(f)
			err := f.install(t.Context(), c.purpose, io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q in it", err, c.want)
			}
			if _, err := os.Stat(f.policyFile); !errors.Is(err, os.ErrNotExist) {
				t.Error("a policy was left behind")
			}
		})
	}
}

func TestPrintAlignsColumns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := PrintChecks(&out, []Check{
		{Name: "a", Why: "because", OK: true, Found: "/bin/a"},
		{Name: "long name", Why: "why", Fix: "apt-get install b"},
		{Name: "c", Why: "perhaps", Optional: true, Fix: "do c"},
	})
	const want = "ok        a          because  /bin/a\n" +
		"missing   long name  why      apt-get install b\n" +
		"optional  c          perhaps  do c\n"
	if err != nil || out.String() != want {
		t.Errorf("got\n%swant\n%s(%v)", out.String(), want, err)
	}
}
