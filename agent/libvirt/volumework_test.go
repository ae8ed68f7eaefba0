//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

func (f fixture) volumeJob(name string, o fleet.VolumeParams) hypervisor.VolumeWork {
	return hypervisor.VolumeWork{Pool: f.pool, Name: name, Params: o, RecordFile: func(string) error { return nil }, Progress: func(int, string) {}}
}

// destructiveJobs runs the jobs that must be refused while a volume is in use, and returns their errors by name.
func (f fixture) destructiveJobs(name string) map[string]error {
	return map[string]error{
		"grow":   f.GrowVolume(f.t.Context(), f.volumeJob(name, fleet.VolumeParams{SizeBytes: 1 << 30})),
		"wipe":   f.WipeVolume(f.t.Context(), f.volumeJob(name, fleet.VolumeParams{})),
		"rename": f.RenameVolume(f.t.Context(), f.volumeJob("renamed", fleet.VolumeParams{Source: name})),
		"delete": f.DeleteVolume(f.t.Context(), f.volumeJob(name, fleet.VolumeParams{})),
	}
}

func (f fixture) volumePath(name string) string { return filepath.Join(f.pool.Spec.Path, name) }

func (f fixture) readVolume(name string) []byte {
	f.t.Helper()
	text, err := os.ReadFile(f.volumePath(name))
	f.requireNoError(err)
	return text
}

// A volume in use is not changed, whatever path a definition uses for it.
func TestJobOnVolumeInUseRefusedUnderAnyPath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dir := t.TempDir()
	f.requireNoError(os.Symlink(f.pool.Spec.Path, filepath.Join(dir, "link")))
	bound := filepath.Join(dir, "bound")
	f.requireNoError(os.Mkdir(bound, 0o755))
	f.requireNoError(bindMount(f.pool.Spec.Path, bound))
	t.Cleanup(func() { f.requireNoError(syscall.Unmount(bound, 0)) })
	overlay := filepath.Join(dir, "overlay")
	for how, disks := range map[string]func(v string) string{
		"path":    func(v string) string { return fileDiskXML(f.volumePath(v), "qcow2") },
		"symlink": func(v string) string { return fileDiskXML(filepath.Join(dir, "link", v), "qcow2") },
		"bind":    func(v string) string { return fileDiskXML(filepath.Join(bound, v), "qcow2") },
		"hardlink": func(v string) string {
			f.requireNoError(os.Link(f.volumePath(v), filepath.Join(dir, v)))
			return fileDiskXML(filepath.Join(dir, v), "qcow2")
		},
		"volume": func(v string) string {
			return fmt.Sprintf(`<disk type='volume' device='disk'><driver name='qemu' type='qcow2'/><source pool='%s' volume='%s'/><target dev='vda' bus='virtio'/></disk>`, f.pool.Name, v)
		},
		"medium": func(v string) string {
			return fmt.Sprintf(`<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='%s'/><target dev='sda' bus='sata'/><readonly/></disk>`, filepath.Join(bound, v))
		},
		"medium-by-volume": func(v string) string {
			return fmt.Sprintf(`<disk type='volume' device='cdrom'><driver name='qemu' type='raw'/><source pool='%s' volume='%s'/><target dev='sda' bus='sata'/><readonly/></disk>`, f.pool.Name, v)
		},
		"backing": func(v string) string {
			run(t, "qemu-img", "create", "-f", "qcow2", "-b", f.volumePath(v), "-F", "qcow2", overlay+"1")
			run(t, "qemu-img", "create", "-f", "qcow2", "-b", overlay+"1", "-F", "qcow2", overlay+"2")
			return fileDiskXML(overlay+"2", "qcow2")
		},
	} {
		addImage(t, f.pool, conformance.Image{Name: how, Kind: conformance.Qcow2, SizeBytes: 4 << 20})
		defineUnmanagedDomain(t, disks(how))
		before := f.readVolume(how)
		for act, err := range f.destructiveJobs(how) {
			if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "stranger-") {
				t.Errorf("%s: %s: %v", how, act, err)
			}
		}
		if !bytes.Equal(before, f.readVolume(how)) {
			t.Errorf("%s: the volume in use was written to", how)
		}
	}

	// The volume is the backing file of a volume in another pool of the host.
	addImage(t, f.pool, conformance.Image{Name: "base", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	other := newFixtureOn(t, f.backend)
	run(t, "qemu-img", "create", "-f", "qcow2", "-b", filepath.Join(dir, "link", "base"), "-F", "qcow2", other.volumePath("top"))
	for act, err := range f.destructiveJobs("base") {
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "top is backed by base") {
			t.Errorf("%s a volume that backs another: %v", act, err)
		}
	}
	f.requireNoError(other.DeleteVolume(t.Context(), other.volumeJob("top", fleet.VolumeParams{})))

	// A QEMU program that libvirt does not know has the volume open.
	io := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", f.volumePath("base"))
	in, err := io.StdinPipe()
	f.requireNoError(err)
	out, err := io.StdoutPipe()
	f.requireNoError(err)
	f.requireNoError(io.Start())
	_, err = out.Read(make([]byte, 1)) // the prompt shows that the program has opened the file
	f.requireNoError(err)
	if err := f.DeleteVolume(t.Context(), f.volumeJob("base", fleet.VolumeParams{})); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "has the volume base open") {
		t.Errorf("delete a volume that QEMU has open: %v", err)
	}
	f.requireNoError(in.Close())
	f.requireNoError(io.Wait())
	f.requireNoError(f.DeleteVolume(t.Context(), f.volumeJob("base", fleet.VolumeParams{})))
}

// Links, directories and devices in a pool are refused, and their targets are not changed.
func TestVolumeJobsRefusedForNonRegularFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	secret := filepath.Join(t.TempDir(), "secret.raw")
	f.requireNoError(os.WriteFile(secret, bytes.Repeat([]byte("s"), 1<<20), 0o600))
	f.requireNoError(os.Symlink(secret, f.volumePath("link.raw")))
	f.requireNoError(os.Symlink(filepath.Dir(secret), f.volumePath("linked-dir")))
	f.requireNoError(os.Mkdir(f.volumePath("dir.raw"), 0o755))
	f.requireNoError(syscall.Mkfifo(f.volumePath("fifo.raw"), 0o600))
	f.requireNoError(syscall.Mknod(f.volumePath("device.raw"), syscall.S_IFBLK|0o600, 7<<8|200))
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	for _, name := range []string{"link.raw", "linked-dir", "dir.raw", "fifo.raw", "device.raw"} {
		all := f.destructiveJobs(name)
		all["clone"] = f.CloneVolume(t.Context(), f.volumeJob("copy.raw", fleet.VolumeParams{Source: name}))
		for act, err := range all {
			if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "plain file") {
				t.Errorf("%s %s: %v", act, name, err)
			}
		}
		if _, err := os.Lstat(f.volumePath(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.CreateVolume(t.Context(), f.volumeJob(name, fleet.VolumeParams{Format: "raw", SizeBytes: 1})); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("create in the place of %s: %v", name, err)
		}
	}
	text, err := os.ReadFile(secret)
	if err != nil || len(text) != 1<<20 || text[0] != 's' {
		t.Error("the link's target was changed", err)
	}
}

func TestWipeZeroesVolumes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, sparse := range map[string]bool{"dense.raw": false, "sparse.raw": true} {
		f.requireNoError(os.WriteFile(f.volumePath(name), bytes.Repeat([]byte("secret"), 1<<18), 0o600))
		size := int64(6 << 18)
		if sparse {
			size = 64 << 20
			f.requireNoError(os.Truncate(f.volumePath(name), size))
		}
		f.requireNoError(f.WipeVolume(t.Context(), f.volumeJob(name, fleet.VolumeParams{})))
		if text := f.readVolume(name); int64(len(text)) != size || len(bytes.Trim(text, "\x00")) != 0 {
			t.Errorf("%s has %d bytes, %d of them not zero", name, len(text), len(bytes.Trim(text, "\x00")))
		}
	}
	addImage(t, f.pool, conformance.Image{Name: "image", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	if !bytes.Contains(f.readVolume("image"), []byte("quantix ")) {
		t.Fatal("the image has no data to wipe")
	}
	f.requireNoError(f.WipeVolume(t.Context(), f.volumeJob("image", fleet.VolumeParams{})))
	if bytes.Contains(f.readVolume("image"), []byte("quantix ")) {
		t.Error("the image still has its data")
	}
	if out := run(t, "qemu-img", "compare", "-f", "qcow2", "-F", "raw", f.volumePath("image"), isAllZeros(t, 4<<20)); !strings.Contains(out, "identical") {
		t.Errorf("a guest sees: %s", out)
	}
}

func isAllZeros(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zeros")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A job in a pool that becomes full reports the hypervisor's error and leaves no unfinished volume.
func TestFullPoolKeepsNoUnfinishedVolume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small := f
	small.pool.ID = fleet.NewID[fleet.PoolID]()
	small.pool.Name, small.pool.Spec.Path = "small-"+string(small.pool.ID), filepath.Join(t.TempDir(), "small")
	f.requireNoError(os.Mkdir(small.pool.Spec.Path, 0o755))
	run(t, "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small.pool.Spec.Path)
	t.Cleanup(func() { f.requireNoError(syscall.Unmount(small.pool.Spec.Path, syscall.MNT_DETACH)) })
	f.requireNoError(f.ApplyPool(t.Context(), small.pool))
	t.Cleanup(func() { f.requireNoError(f.ReleasePool(context.WithoutCancel(t.Context()), small.pool)) })
	f.requireNoError(os.WriteFile(small.volumePath("big.raw"), bytes.Repeat([]byte("x"), 5<<20), 0o600))
	for what, err := range map[string]error{
		"raw":   small.CreateVolume(t.Context(), small.volumeJob("full.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 64 << 20, Full: true})),
		"qcow2": small.CreateVolume(t.Context(), small.volumeJob("full.qcow2", fleet.VolumeParams{Format: "qcow2", SizeBytes: 64 << 20, Full: true})),
		"clone": small.CloneVolume(t.Context(), small.volumeJob("copy.raw", fleet.VolumeParams{Source: "big.raw"})),
	} {
		message := "No space left on device"
		if what == "clone" {
			message = "but the copy needs 5 MiB" // known before the copy begins
		}
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", what, err)
		}
	}
	entries, err := os.ReadDir(small.pool.Spec.Path)
	f.requireNoError(err)
	for _, e := range entries {
		if e.Name() != "big.raw" && e.Name() != pooldir.MarkerFile {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// The unfinished file of a killed agent is not listed at first. Once abandoned, the file is listed as unfinished. The
// next attempt removes the file, and a user can delete it.
func TestUnfinishedVolumeFileListedOnlyWhenAbandoned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	left := f.volumePath("data.raw" + fleet.PartialSuffix)
	listed := func() (fleet.Volume, bool) {
		f.requireNoError(f.ApplyPool(t.Context(), f.pool))
		for _, v := range poolStatusOf(t, f, f.pool).Volumes {
			if strings.HasPrefix(v.Name, "data.raw") {
				return v, true
			}
		}
		return fleet.Volume{}, false
	}
	put := func(age time.Duration) {
		f.requireNoError(os.WriteFile(left, []byte("half"), 0o600))
		f.requireNoError(os.Chtimes(left, time.Now().Add(-age), time.Now().Add(-age)))
	}
	put(0)
	if v, ok := listed(); ok {
		t.Errorf("the new unfinished file is listed: %+v", v)
	}
	put(time.Hour)
	if v, ok := listed(); !ok || !v.Unfinished || v.IsImage() {
		t.Errorf("the abandoned file is listed as %+v", v)
	}
	f.requireNoError(f.CreateVolume(t.Context(), f.volumeJob("data.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})))
	if v, ok := listed(); !ok || v.Unfinished || v.Name != "data.raw" {
		t.Errorf("after the next attempt the pool has %+v", v)
	}
	put(time.Hour)
	listed()
	f.requireNoError(f.DeleteVolume(t.Context(), f.volumeJob(filepath.Base(left), fleet.VolumeParams{})))
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Error("the deleted file still exists", err)
	}
	if v, ok := listed(); !ok || v.Name != "data.raw" {
		t.Errorf("the complete volume was deleted, too: %+v", v)
	}
}

// Each of several concurrent jobs for one volume either succeeds or changes nothing.
func TestConcurrentVolumeJobsSucceedOrChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wait sync.WaitGroup
	made := make(chan error, 8)
	for range 8 {
		wait.Go(func() {
			made <- f.CreateVolume(t.Context(), f.volumeJob("one.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 4 << 20, Full: true}))
		})
	}
	wait.Wait()
	close(made)
	created := 0
	for err := range made {
		if err == nil {
			created++
		} else if fleet.CodeOf(err) != fleet.Conflict {
			t.Error(err)
		}
	}
	if created != 1 {
		t.Errorf("the volume was created %d times", created)
	}

	// A VM is created from an image while another job deletes the image. The VM gets a complete copy of the image, or
	// the VM's creation is refused.
	for n := range 4 {
		image := fmt.Sprintf("image-%d", n)
		addImage(t, f.pool, conformance.Image{Name: image, Kind: conformance.Qcow2, SizeBytes: 4 << 20})
		f.requireNoError(f.ApplyPool(t.Context(), f.pool))
		vm := f.newVM()
		d := f.newDisk(fmt.Sprintf("disk-%d", n))
		d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: f.pool.ID, Volume: image}
		vm.Spec.Disks = []fleet.Disk{d}
		var applied error
		wait.Go(func() { applied = f.ApplyVM(t.Context(), applyJob(vm, f.pool)) })
		wait.Go(func() { f.DeleteVolume(t.Context(), f.volumeJob(image, fleet.VolumeParams{})) })
		wait.Wait()
		_, err := os.Stat(f.volumePath(d.Volume))
		if (applied == nil) != (err == nil) {
			t.Errorf("applied: %v, its disk: %v", applied, err)
		}
		if err == nil {
			run(t, "qemu-img", "check", "-f", "qcow2", f.volumePath(d.Volume))
		}
	}
}

// A failed job leaves no file, listed or not.
func TestFailedVolumeJobLeavesNoFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.requireNoError(os.WriteFile(f.volumePath("busy.raw"), bytes.Repeat([]byte("x"), 8<<20), 0o600))
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	unrecorded := f.volumeJob("unrecorded.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})
	unrecorded.RecordFile = func(string) error { return errors.New("state file not written") }
	if err := f.CreateVolume(t.Context(), unrecorded); err == nil || !strings.Contains(err.Error(), "state file not written") {
		t.Error(err)
	}

	// The copy of a file that changes during the copy is refused.
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		for at := time.Now(); ctx.Err() == nil; at = at.Add(time.Second) {
			if err := os.Chtimes(f.volumePath("busy.raw"), at, at); err != nil {
				t.Error(err)
				return
			}
		}
	})
	err := f.CloneVolume(t.Context(), f.volumeJob("copy.raw", fleet.VolumeParams{Source: "busy.raw"}))
	cancel()
	wait.Wait()
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "was written to") {
		t.Errorf("copy of a file that changes: %v", err)
	}
	entries, err := os.ReadDir(f.pool.Spec.Path)
	f.requireNoError(err)
	for _, e := range entries {
		if e.Name() != "busy.raw" && e.Name() != pooldir.MarkerFile {
			t.Errorf("%s is left", e.Name())
		}
	}
}
