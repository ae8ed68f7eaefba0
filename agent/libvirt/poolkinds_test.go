//go:build linux && ordeal

package libvirt_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
	"quantix/internal/fleet"
)

// newMountedPool returns a pool that the host mounts. The test's cleanup releases the pool.
func newMountedPool(t *testing.T, b hypervisor.Hypervisor, spec fleet.PoolSpec) fleet.Pool {
	t.Helper()
	spec.Path = filepath.Join(t.TempDir(), "mnt")
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: spec}
	p.Name = string(spec.Kind) + "-" + string(p.ID)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := b.ReleasePool(ctx, p); err != nil {
			t.Error(err)
		}
	})
	return p
}

// backendAllowing returns a backend whose settings allow pools on these devices.
func backendAllowing(t *testing.T, devices ...string) hypervisor.Hypervisor {
	t.Helper()
	requireLabHost(t)
	allowed := tempDirRoots
	allowed.Devices = devices
	b, err := libvirt.Open(t.Context(), libvirt.Options{PoolRoots: allowed, PoolBook: sharedPoolBook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// newLoopDevice returns a loop device with an empty file system.
func newLoopDevice(t *testing.T, format string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 320<<20)); err != nil {
		t.Fatal(err)
	}
	runOutput(t, "mkfs."+format, "-q", file)
	device := runOutput(t, "losetup", "-f", "--show", file)
	t.Cleanup(func() { runOutput(t, "losetup", "-d", device) })
	return device
}

// A pool on a device mounts the device's file system and never formats the device. It mounts again after a lost mount,
// and unmounts on release.
func TestDevicePoolMountsAndUnmounts(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			device := newLoopDevice(t, format)
			b := backendAllowing(t, "/dev/loop*")
			p := newMountedPool(t, b, fleet.PoolSpec{Kind: fleet.PoolFS, Device: device, Format: format})
			f := fixture{backend: b, t: t, pool: p}
			elsewhere := t.TempDir()
			runOutput(t, "mount", device, elsewhere)
			if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(err.Error(), "is mounted at "+elsewhere+" already") {
				t.Errorf("the device is mounted elsewhere: %v", err)
			}
			unmount(t, elsewhere)
			for range 2 {
				f.requireNoError(b.ApplyPool(t.Context(), p))
			}
			waitPoolStatus(t, b, p, "active", func(s fleet.PoolStatus) bool {
				return s.State == fleet.PoolActive && s.CapacityBytes > 200<<20 && s.CapacityBytes < 330<<20
			})
			waitPoolStatus(t, b, p, "write-tested", func(s fleet.PoolStatus) bool {
				return s.WriteMicros > 0 && s.Error == "" && strings.Contains(s.MountOptions, "rw,") && strings.Contains(s.MountOptions, "nosuid")
			})
			runOutput(t, "mount", "-o", "remount,ro", p.Spec.Path)
			f.requireNoError(b.ApplyPool(t.Context(), p)) // refreshes the status
			waitPoolStatus(t, b, p, "read-only", func(s fleet.PoolStatus) bool {
				return s.State == fleet.PoolActive && strings.Contains(s.Error, "is mounted read-only") && strings.HasPrefix(s.MountOptions, "ro,") && s.WriteMicros == 0
			})
			runOutput(t, "mount", "-o", "remount,rw", p.Spec.Path)
			f.requireNoError(b.ApplyPool(t.Context(), p))
			waitPoolStatus(t, b, p, "writable again", func(s fleet.PoolStatus) bool { return s.Error == "" && s.WriteMicros > 0 })
			vm := f.newVM()
			vm.Spec.Disks = []fleet.Disk{{PoolID: p.ID, Volume: "a.qcow2", SizeBytes: 8 << 20}}
			f.requireNoError(b.ApplyVM(t.Context(), applyJob(vm, p)))
			if _, err := os.Stat(filepath.Join(p.Spec.Path, vm.Spec.Disks[0].Volume)); err != nil {
				t.Errorf("the VM's disk: %v", err)
			}

			unmount(t, p.Spec.Path)
			waitPoolStatus(t, b, p, "mounted again without a job", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && len(s.Volumes) == 1 })
			f.requireNoError(b.DeleteVM(t.Context(), vm, []fleet.Pool{p}, true))
			f.requireNoError(b.ReleasePool(t.Context(), p))
			if mounts, _ := os.ReadFile("/proc/mounts"); strings.Contains(string(mounts), device+" ") {
				t.Error("the released device is still mounted")
			}
		})
	}
}

func TestDevicePoolRefusalNamesReason(t *testing.T) {
	t.Parallel()
	device := newLoopDevice(t, "ext4")
	empty := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.Truncate(empty, 16<<20)); err != nil {
		t.Fatal(err)
	}
	blank := runOutput(t, "losetup", "-f", "--show", empty)
	t.Cleanup(func() { runOutput(t, "losetup", "-d", blank) })
	for what, c := range map[string]struct {
		devices      []string
		device, want string
	}{
		"not allowed":         {nil, device, "allows no device for pools"},
		"only others allowed": {[]string{"/dev/sd*"}, device, "allows /dev/sd* only"},
		"device missing":      {[]string{"/dev/*"}, "/dev/none-such", "The host has no device /dev/none-such."},
		"not a block device":  {[]string{"/dev/*"}, "/dev/null", "/dev/null is not a block device."},
		"no file system":      {[]string{"/dev/loop*"}, blank, "wrong fs type"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := backendAllowing(t, c.devices...)
			p := newMountedPool(t, b, fleet.PoolSpec{Kind: fleet.PoolFS, Device: c.device, Format: "ext4"})
			if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("apply: %v, want %q", err, c.want)
			}
			if st := poolStatusOf(t, b, p); st.State != fleet.PoolFailed || !strings.Contains(st.Error, c.want) {
				t.Errorf("the pool is %+v", st)
			}
		})
	}
	if raw, err := os.ReadFile(empty); err != nil || strings.Trim(string(raw), "\x00") != "" {
		t.Errorf("something was written to the blank device: %v", err)
	}
}

// startGluster starts a server with one volume, gv0, at the address of the lab host's default network. The test's
// cleanup stops it.
func startGluster(t *testing.T) (server string, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "gluster")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	iface, err := net.InterfaceByName(networkBridge(t, "default"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := iface.Addrs()
	if err != nil || len(all) == 0 {
		t.Fatalf("the host's network has no address: %v", err)
	}
	server = all[0].(*net.IPNet).IP.String()
	conf := `volume management
    type mgmt/glusterd
    option working-directory ` + dir + `/work
    option transport-type socket
    option transport.socket.bind-address ` + server + `
    option transport.socket.listen-port 24007
    option rpc-auth-allow-insecure on
    option run-directory ` + dir + `/run
    option glusterd-sockfile ` + dir + `/gd.sock
end-volume
`
	if err := errors.Join(os.MkdirAll(dir+"/run", 0o755), os.MkdirAll(dir+"/work", 0o755), os.MkdirAll(dir+"/brick/b", 0o755), os.WriteFile(dir+"/glusterd.vol", []byte(conf), 0o600)); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("glusterd", "-N", "-f", dir+"/glusterd.vol", "-p", dir+"/glusterd.pid", "-l", dir+"/glusterd.log")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) error {
		return exec.Command("gluster", append([]string{"--glusterd-sock=" + dir + "/gd.sock", "--mode=script", "--log-file=" + dir + "/cli.log"}, args...)...).Run()
	}
	end := func() {
		_ = ask("volume", "stop", "gv0", "force")
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	}
	t.Cleanup(end)
	waitFor(t, "glusterd answers", func() bool { return ask("pool", "list") == nil })
	for _, args := range [][]string{{"create", "gv0", "transport", "tcp", server + ":" + dir + "/brick/b", "force"}, {"set", "gv0", "server.allow-insecure", "on"}, {"start", "gv0"}} {
		if err := ask(append([]string{"volume"}, args...)...); err != nil {
			log, _ := os.ReadFile(dir + "/cli.log")
			t.Fatalf("volume %s: %v\n%s", args[0], err, log)
		}
	}
	return server, end
}

func networkBridge(t *testing.T, network string) string {
	t.Helper()
	for line := range strings.Lines(virsh(t, "net-info", network)) {
		if name, ok := strings.CutPrefix(line, "Bridge:"); ok {
			return strings.TrimSpace(name)
		}
	}
	t.Fatalf("the network %s has no bridge", network)
	return ""
}

// This test runs alone: it kills the server under the mount, and the hanging mount blocks volume jobs of the whole
// host.
func TestGlusterPoolMountsAndReportsDeadServer(t *testing.T) {
	server, stop := startGluster(t)
	b := backendAllowing(t)
	none := newMountedPool(t, b, fleet.PoolSpec{Kind: fleet.PoolGluster, Server: server, Volume: "none", Shared: true})
	if err := b.ApplyPool(t.Context(), none); err == nil || !strings.Contains(err.Error(), "mount") {
		t.Errorf("a missing volume: %v", err)
	}
	p := newMountedPool(t, b, fleet.PoolSpec{Kind: fleet.PoolGluster, Server: server, Volume: "gv0", Shared: true})
	f := fixture{backend: b, t: t, pool: p}
	waitFor(t, "the volume is mounted", func() bool { return b.ApplyPool(t.Context(), p) == nil })
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{{PoolID: p.ID, Volume: "a.qcow2", SizeBytes: 8 << 20}}
	f.requireNoError(b.ApplyVM(t.Context(), applyJob(vm, p)))
	waitPoolStatus(t, b, p, "active with the disk", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && len(s.Volumes) == 1 })
	stop()
	waitPoolStatus(t, b, p, "not active", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolFailed || s.State == fleet.PoolStalled })
}
