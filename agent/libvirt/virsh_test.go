//go:build linux

package libvirt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
)

func replacePoolDir(t *testing.T, p fleet.Pool, how conformance.PoolDirReplacement) (back func()) {
	t.Helper()
	dir, aside := p.Spec.Path, p.Spec.Path+".aside"
	if how == conformance.PoolDirCovered {
		run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir)
		back = sync.OnceFunc(func() { unmount(t, dir) })
		t.Cleanup(back)
		return back
	}
	if err := os.Rename(dir, aside); err != nil {
		t.Fatal(err)
	}
	if how == conformance.PoolDirEmptied {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	back = sync.OnceFunc(func() {
		if how == conformance.PoolDirEmptied {
			if err := os.Remove(dir); err != nil {
				t.Error("something was created in the pool's place:", err)
			}
		}
		if err := os.Rename(aside, dir); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(back)
	return back
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(context.Background(), "umount", dir).CombinedOutput(); err != nil {
		t.Errorf("umount %s: %v: %s", dir, err, out)
	}
}

// editVM edits a VM with virsh, as an administrator does.
func editVM(t *testing.T, vm fleet.VMID, c conformance.VMEdit) {
	t.Helper()
	id := string(vm)
	if c.CPUs > 0 {
		n := strconv.Itoa(c.CPUs)
		virsh(t, "setvcpus", id, n, "--config", "--maximum")
		virsh(t, "setvcpus", id, n, "--config")
	}
	if c.MemoryMiB > 0 {
		n := strconv.Itoa(c.MemoryMiB) + "MiB"
		virsh(t, "setmaxmem", id, n, "--config")
		virsh(t, "setmem", id, n, "--config")
	}
	if c.DetachDisk != "" {
		virsh(t, "detach-disk", id, c.DetachDisk, "--config")
	}
	if c.RemoveFirstBoot {
		removeDefinedSeed(t, id)
	}
	if c.Network != "" {
		edit(t, id, "<source network='default'/>", "<source network='"+c.Network+"'/>")
	}
	if c.ISO != "" {
		virsh(t, "change-media", id, "sda", c.ISO, "--insert", "--config")
	}
	if c.Name != "" {
		virsh(t, "domrename", id, c.Name)
	}
}

// guestWrites writes a qcow2 header that names another volume of the pool to a raw volume.
func guestWrites(t *testing.T, p fleet.Pool, volume, names string) {
	t.Helper()
	decoy := filepath.Join(t.TempDir(), "lure")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", filepath.Join(p.Spec.Path, names), "-F", "qcow2", decoy, "1G")
	overwriteBeginning(t, filepath.Join(p.Spec.Path, volume), must(os.ReadFile(decoy))[:4096])
}

// overwriteBeginning overwrites the beginning of a file.
func overwriteBeginning(t *testing.T, path string, text []byte) {
	t.Helper()
	f := must(os.OpenFile(path, os.O_WRONLY, 0))
	_, err := f.WriteAt(text, 0)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// checkChain runs qemu-img check on every file of a disk's chain.
func checkChain(t *testing.T, path string) {
	t.Helper()
	out := run(t, "qemu-img", "info", "-U", "--backing-chain", path)
	files := 0
	for line := range strings.Lines(out) {
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok {
			files++
			run(t, "qemu-img", "check", "-U", "-q", file)
		}
	}
	if files == 0 {
		t.Fatalf("%s has no chain: %s", path, out)
	}
}

func takeVirshSnapshot(t *testing.T, id fleet.VMID, name string) func() {
	t.Helper()
	virsh(t, "snapshot-create-as", string(id), name)
	return func() { virsh(t, "snapshot-delete", string(id), name) }
}

// createVirshOverlay creates an overlay in the pool on the VM's first disk, with virsh.
func createVirshOverlay(t *testing.T, p fleet.Pool, vm fleet.VM, name string) {
	t.Helper()
	args := []string{"snapshot-create-as", string(vm.ID), name, "--disk-only", "--diskspec", "vda,file=" + filepath.Join(p.Spec.Path, name)}
	for i := range vm.Spec.Disks[1:] {
		args = append(args, "--diskspec", "vd"+string(rune('b'+i))+",snapshot=no")
	}
	virsh(t, args...)
}

func hideVolume(t *testing.T, pool fleet.Pool, volume string) func() {
	t.Helper()
	from, to := filepath.Join(pool.Spec.Path, volume), filepath.Join(t.TempDir(), "hidden")
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(from, to)
	return func() { rename(to, from) }
}

// linkVolume replaces the volume's file by a symbolic link to the moved file.
func linkVolume(t *testing.T, pool fleet.Pool, volume string) func() {
	t.Helper()
	at, aside := filepath.Join(pool.Spec.Path, volume), filepath.Join(t.TempDir(), "aside")
	if err := errors.Join(os.Rename(at, aside), os.Symlink(aside, at)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(aside, at); err != nil {
			t.Fatal(err)
		}
	}
}

func powerOf(t *testing.T, id fleet.VMID) fleet.Power {
	t.Helper()
	return powerOfDomainAt(t, systemURI, id)
}

func powerOfDomainAt(t *testing.T, uri string, id fleet.VMID) fleet.Power {
	t.Helper()
	out, err := virshAt(uri, "domstate", string(id))
	if err != nil {
		return fleet.Absent
	}
	return map[string]fleet.Power{"running": fleet.Running, "paused": fleet.Paused, "shut off": fleet.Stopped}[out]
}

func virsh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryVirsh(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// systemURI is the libvirt URI of the host that the tests run on.
const systemURI = "qemu:///system"

func tryVirsh(args ...string) (string, error) { return virshAt(systemURI, args...) }

// virshAt runs virsh with a time limit of its own, because cleanups call it after the test's context has ended.
func virshAt(uri string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "virsh", append([]string{"-q", "-c", uri}, args...)...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("virsh %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return strings.TrimSpace(string(out)), err
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

func libvirtdPID(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/run/libvirt/libvirtd.pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signalProcess(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Error(err)
	}
}

func stopLibvirtd(t *testing.T) {
	t.Helper()
	pid := libvirtdPID(t)
	signalProcess(t, pid, syscall.SIGKILL)
	waitFor(t, "libvirtd is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}

// startLibvirtd starts libvirtd. It does not use the test's context, because cleanups call it, too.
func startLibvirtd(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(context.Background(), "libvirtd", "-d", "--pid-file", "/run/libvirt/libvirtd.pid").CombinedOutput(); err != nil {
		t.Fatalf("libvirtd: %v: %s", err, out)
	}
	waitFor(t, "libvirtd answers", func() bool { _, err := tryVirsh("uri"); return err == nil })
}

func bindMount(from, to string) error { return syscall.Mount(from, to, "", syscall.MS_BIND, "") }

// guestStepTimeout is how long an emulated guest on a busy machine may take for one step of a test.
const guestStepTimeout = 5 * time.Minute

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(guestStepTimeout)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not in time", what)
		}
	}
}
