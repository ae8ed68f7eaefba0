//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/agent/libvirt"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// poolFiles returns the pool's files without its marker.
func (f fixture) poolFiles() (names []string) {
	f.t.Helper()
	for _, e := range must(os.ReadDir(f.pool.Spec.Path)) {
		if e.Name() != pooldir.MarkerFile {
			names = append(names, e.Name())
		}
	}
	return names
}

// A download is inspected before it gets its name. A refused download leaves no file.
func TestInvalidDownloadRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	valid := qemuImgCreate(t, "-f", "qcow2", "FILE", "64M")
	boot := append([]byte("\xeb\x63"), make([]byte, 1<<20)...)
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"backing.qcow2":   {qemuImgCreate(t, "-f", "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", "FILE", "64M"), "refers to a backing file"},
		"data.qcow2":      {qemuImgCreate(t, "-f", "qcow2", "-o", "data_file=FILE.data", "FILE", "64M"), "an external data file"},
		"encrypted.qcow2": {qemuImgCreate(t, "--object", "secret,id=s,data=x", "-f", "qcow2", "-o", "encrypt.format=aes,encrypt.key-secret=s", "FILE", "64M"), "encrypted"},
		"cut.qcow2":       {valid[:len(valid)/2], "cut off"},
		"header.qcow2":    {valid[:90], "cut off"},
		"another.vmdk":    {qemuImgCreate(t, "-f", "vdi", "FILE", "64M"), "vmdk"},
		"none.ova":        {append([]byte("PK"), make([]byte, 1<<20)...), "archive"},
		"flat.vmdk":       {[]byte("# Disk DescriptorFile\nversion=1\nRW 99 FLAT \"/etc/passwd\" 0\n"), "vmdk"},
		"sparse.raw":      {qemuImgCreate(t, "-f", "vmdk", "FILE", "64M"), "vmdk"},
		"vdi.raw":         {qemuImgCreate(t, "-f", "vdi", "FILE", "64M"), "vdi"},
		"vpc.raw":         {qemuImgCreate(t, "-f", "vpc", "FILE", "64M"), "vpc"},
		"fixed.raw":       {qemuImgCreate(t, "-f", "vpc", "-o", "subformat=fixed", "FILE", "4M"), "VHD image of fixed size"},
		"vhdx.raw":        {qemuImgCreate(t, "-f", "vhdx", "FILE", "64M"), "vhdx"},
		"disk.qed":        {qemuImgCreate(t, "-f", "qed", "FILE", "64M"), "qed"},
		"disk.luks":       {append([]byte("LUKS\xba\xbe"), make([]byte, 1<<20)...), "encrypted LUKS"},
		"image.iso":       {boot, "not an ISO image"},
		"packed.qcow2":    {append([]byte("\xfd7zXZ\x00"), make([]byte, 100)...), "Unpack it first"},
		"none.raw":        {nil, "empty"},
	} {
		err := f.FetchVolume(t.Context(), f.volumeJob(name, serveImage(t, c.text)))
		if err == nil || !strings.Contains(err.Error(), c.want) || fleet.CodeOf(err) == fleet.Unavailable {
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.want)
		}
		if left := f.poolFiles(); len(left) > 0 {
			t.Fatalf("%s: the refused download left %q", name, left)
		}
	}
	for name, text := range map[string][]byte{
		"whole.qcow2": valid, "old.qcow2": qemuImgCreate(t, "-f", "qcow2", "-o", "compat=0.10", "FILE", "64M"), "boot.raw": boot,
		"sparse.vmdk": qemuImgCreate(t, "-f", "vmdk", "FILE", "64M"), "disk.vdi": qemuImgCreate(t, "-f", "vdi", "FILE", "64M"), "disk.vhd": qemuImgCreate(t, "-f", "vpc", "FILE", "64M"),
		"fixed.vhd": qemuImgCreate(t, "-f", "vpc", "-o", "subformat=fixed", "FILE", "4M"), "disk.vhdx": qemuImgCreate(t, "-f", "vhdx", "FILE", "64M"),
	} {
		f.requireNoError(f.FetchVolume(t.Context(), f.volumeJob(name, serveImage(t, text))))
		info := must(os.Stat(f.volumePath(name)))
		if owner := info.Sys().(*syscall.Stat_t); !bytes.Equal(f.readVolume(name), text) || info.Mode() != 0o600 || owner.Gid != uint32(os.Getgid()) {
			t.Errorf("%s: %v of group %d, %d bytes", name, info.Mode(), owner.Gid, info.Size())
		}
	}
}

// The size of a download is limited to the pool's free space less a reserve.
func TestDownloadRefusedWithoutFreeSpace(t *testing.T) {
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
	text := append([]byte("\xeb\x63"), make([]byte, 8<<20-40<<10)...)
	order := serveImage(t, text)
	quiet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for len(text) > 0 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(quiet.Close)
	for what, o := range map[string]fleet.VolumeParams{"of a known size": order, "without an end": {URL: quiet.URL, Checksum: order.Checksum}} {
		err := small.FetchVolume(t.Context(), small.volumeJob("big.raw", o))
		if err == nil || !strings.Contains(err.Error(), "the pool has room for 7.6 MiB") {
			t.Errorf("a download %s: %v", what, err)
		}
		if left := small.poolFiles(); len(left) > 0 {
			t.Errorf("a download %s left %q", what, left)
		}
	}
}

// Compressed files and text files are refused as disk images, even if a user copied them into the pool.
func TestDiskFromNonImageRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	valid := qemuImgCreate(t, "-f", "qcow2", "FILE", "4M")
	for name, c := range map[string]struct {
		text []byte
		want string
	}{"packed.raw": {append([]byte("\x1f\x8b"), make([]byte, 1<<20)...), "a gzip file"}, "page.raw": {[]byte("<html>"), "a web page"}} {
		f.requireNoError(os.WriteFile(f.volumePath(name), c.text, 0o600))
		vm := f.newVM()
		vm.Spec.Disks = []fleet.Disk{f.newDisk("from-" + name)}
		vm.Spec.Disks[0].Image = &fleet.Volref{PoolID: f.pool.ID, Volume: name}
		if err := f.ApplyVM(t.Context(), applyJob(vm, f.pool)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.requireNoError(os.WriteFile(f.volumePath("whole.qcow2"), valid, 0o600))
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	spoilt := bytes.Clone(valid)
	copy(spoilt[40:48], "\x00\x00\x00\x7f\x00\x00\x00\x00") // the L1 table's offset is far outside the file
	f.requireNoError(os.WriteFile(f.volumePath("whole.qcow2"), spoilt, 0o600))
	err := f.CloneVolume(t.Context(), f.volumeJob("copy.qcow2", fleet.VolumeParams{Source: "whole.qcow2"}))
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "outside the file") {
		t.Errorf("a clone of a corrupt image: %v", err)
	}
}

// Downloads from the host itself and from private networks are refused unless the agent's settings allow them.
func TestDownloadFromHostItselfRefused(t *testing.T) {
	t.Parallel()
	requireLabHost(t)
	b, err := libvirt.Open(t.Context(), libvirt.Options{PoolRoots: tempDirRoots, PoolBook: sharedPoolBook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	err = f.FetchVolume(t.Context(), f.volumeJob("image.raw", serveImage(t, []byte("secret"))))
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "fetchFrom") {
		t.Errorf("from the host itself: %v", err)
	}
	if left := f.poolFiles(); len(left) > 0 {
		t.Errorf("the refused download left %q", left)
	}
}
