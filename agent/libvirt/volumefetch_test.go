//go:build linux

package libvirt_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/agent"
	"quantix/agent/fetch"
	"quantix/agent/hvtest"
	"quantix/agent/libvirt"
	"quantix/internal/fleet"
)

// fetcher reaches the tests' own servers, and trusts those with TLS, which all have one certificate.
var fetcher = func() *fetch.Client {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return fetch.New(fetch.Settings{From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots})
}()

// sums serves a file of checksums over TLS.
func sums(t *testing.T, text string) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	t.Cleanup(s.Close)
	return s.URL + "/SHA512SUMS"
}

func sumOf(text []byte) string {
	sum := sha512.Sum512(text)
	return "sha512:" + hex.EncodeToString(sum[:])
}

// serve is a server that has the file, and the file's checksum: without that, plain http is not taken.
func serve(t *testing.T, text []byte) fleet.VolumeOrder {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	}))
	t.Cleanup(s.Close)
	return fleet.VolumeOrder{URL: s.URL + "/image", Checksum: sumOf(text)}
}

// made is what qemu-img makes of the words.
func made(t *testing.T, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "FILE", path)
	}
	run(t, "qemu-img", append([]string{"create", "-q"}, args...)...)
	return must(os.ReadFile(path))
}

func remote(t *testing.T, what hvtest.Remote) (url, checksum string) {
	t.Helper()
	var o fleet.VolumeOrder
	switch what {
	case hvtest.RemoteQcow2, hvtest.RemoteWrong:
		o = serve(t, made(t, "-f", "qcow2", "FILE", "4M"))
	case hvtest.RemoteSums, hvtest.RemoteNoSum, hvtest.RemoteNoFile:
		o = serve(t, made(t, "-f", "qcow2", "FILE", "4M"))
		digits := strings.TrimPrefix(o.Checksum, "sha512:")
		switch what {
		case hvtest.RemoteSums:
			return o.URL, sums(t, digits+"  image\n")
		case hvtest.RemoteNoSum:
			return o.URL, sums(t, digits+"  other\n")
		}
		s := httptest.NewTLSServer(nil)
		s.Close()
		return o.URL, s.URL + "/SHA512SUMS"
	case hvtest.RemoteISO:
		path := filepath.Join(t.TempDir(), "iso")
		disc(t, path, 1<<20)
		o = serve(t, must(os.ReadFile(path)))
	case hvtest.RemotePage:
		o = serve(t, []byte("<!DOCTYPE html><title>Not found</title>"))
	case hvtest.RemoteGone:
		s := httptest.NewServer(nil)
		s.Close()
		o = fleet.VolumeOrder{URL: s.URL, Checksum: sumOf(nil)}
	case hvtest.RemoteStuck:
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10000000")
			_, _ = w.Write(make([]byte, 1<<20))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		o = fleet.VolumeOrder{URL: s.URL, Checksum: sumOf(nil)}
	}
	if what == hvtest.RemoteWrong {
		o.Checksum = sumOf(nil)
	}
	return o.URL, o.Checksum
}

// leftIn are the pool's files but for its marker.
func (f fixture) leftIn() (names []string) {
	f.t.Helper()
	for _, e := range must(os.ReadDir(f.pool.Spec.Path)) {
		if e.Name() != agent.PoolMarker {
			names = append(names, e.Name())
		}
	}
	return names
}

// What is downloaded is inspected before it has a name, and what is no image leaves nothing.
func TestDownloadsAreInspected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	whole := made(t, "-f", "qcow2", "FILE", "64M")
	boot := append([]byte("\xeb\x63"), make([]byte, 1<<20)...)
	for name, c := range map[string]struct {
		text []byte
		says string
	}{
		"backing.qcow2":   {made(t, "-f", "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", "FILE", "64M"), "refers to a backing file"},
		"data.qcow2":      {made(t, "-f", "qcow2", "-o", "data_file=FILE.data", "FILE", "64M"), "an external data file"},
		"encrypted.qcow2": {made(t, "--object", "secret,id=s,data=x", "-f", "qcow2", "-o", "encrypt.format=aes,encrypt.key-secret=s", "FILE", "64M"), "encrypted"},
		"cut.qcow2":       {whole[:len(whole)/2], "cut off"},
		"header.qcow2":    {whole[:90], "cut off"},
		"another.vmdk":    {made(t, "-f", "vdi", "FILE", "64M"), "vmdk"},
		"none.ova":        {append([]byte("PK"), make([]byte, 1<<20)...), "archive"},
		"flat.vmdk":       {[]byte("# Disk DescriptorFile\nversion=1\nRW 99 FLAT \"/etc/passwd\" 0\n"), "vmdk"},
		"sparse.raw":      {made(t, "-f", "vmdk", "FILE", "64M"), "vmdk"},
		"vdi.raw":         {made(t, "-f", "vdi", "FILE", "64M"), "vdi"},
		"vpc.raw":         {made(t, "-f", "vpc", "FILE", "64M"), "vpc"},
		"fixed.raw":       {made(t, "-f", "vpc", "-o", "subformat=fixed", "FILE", "4M"), "VHD image of fixed size"},
		"vhdx.raw":        {made(t, "-f", "vhdx", "FILE", "64M"), "vhdx"},
		"disk.qed":        {made(t, "-f", "qed", "FILE", "64M"), "qed"},
		"disk.luks":       {append([]byte("LUKS\xba\xbe"), make([]byte, 1<<20)...), "encrypted LUKS"},
		"image.iso":       {boot, "no ISO image"},
		"packed.qcow2":    {append([]byte("\xfd7zXZ\x00"), make([]byte, 100)...), "Unpack it first"},
		"none.raw":        {nil, "empty"},
	} {
		err := f.FetchVolume(t.Context(), f.work(name, serve(t, c.text)))
		if err == nil || !strings.Contains(err.Error(), c.says) || fleet.CodeOf(err) == fleet.Unavailable {
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.says)
		}
		if left := f.leftIn(); len(left) > 0 {
			t.Fatalf("%s: there is %q", name, left)
		}
	}
	for name, text := range map[string][]byte{
		"whole.qcow2": whole, "old.qcow2": made(t, "-f", "qcow2", "-o", "compat=0.10", "FILE", "64M"), "boot.raw": boot,
		"sparse.vmdk": made(t, "-f", "vmdk", "FILE", "64M"), "disk.vdi": made(t, "-f", "vdi", "FILE", "64M"), "disk.vhd": made(t, "-f", "vpc", "FILE", "64M"),
		"fixed.vhd": made(t, "-f", "vpc", "-o", "subformat=fixed", "FILE", "4M"), "disk.vhdx": made(t, "-f", "vhdx", "FILE", "64M"),
	} {
		f.ok(f.FetchVolume(t.Context(), f.work(name, serve(t, text))))
		info := must(os.Stat(f.at(name)))
		if owner := info.Sys().(*syscall.Stat_t); !bytes.Equal(f.content(name), text) || info.Mode() != 0o600 || owner.Gid != uint32(os.Getgid()) {
			t.Errorf("%s: %v of group %d, %d bytes", name, info.Mode(), owner.Gid, info.Size())
		}
	}
}

// No more comes than the pool has room for, and a part of that stays for others.
func TestADownloadThatDoesNotFit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small := f
	small.pool.ID = fleet.NewID[fleet.PoolID]()
	small.pool.Name, small.pool.Spec.Path = "small-"+string(small.pool.ID), filepath.Join(t.TempDir(), "small")
	f.ok(os.Mkdir(small.pool.Spec.Path, 0o755))
	run(t, "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small.pool.Spec.Path)
	t.Cleanup(func() { f.ok(syscall.Unmount(small.pool.Spec.Path, syscall.MNT_DETACH)) })
	f.ok(f.ApplyPool(t.Context(), small.pool))
	t.Cleanup(func() { f.ok(f.ReleasePool(context.WithoutCancel(t.Context()), small.pool)) })
	text := append([]byte("\xeb\x63"), make([]byte, 8<<20-40<<10)...)
	said := serve(t, text)
	quiet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for len(text) > 0 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(quiet.Close)
	for what, o := range map[string]fleet.VolumeOrder{"of a known size": said, "without an end": {URL: quiet.URL, Checksum: said.Checksum}} {
		err := small.FetchVolume(t.Context(), small.work("big.raw", o))
		if err == nil || !strings.Contains(err.Error(), "the pool has room for 7.6 MiB") {
			t.Errorf("a download %s: %v", what, err)
		}
		if left := small.leftIn(); len(left) > 0 {
			t.Errorf("a download %s left %q", what, left)
		}
	}
}

// What is packed, or text, makes no VM's disk, however it came into the pool.
func TestAVMIsMadeFromAnImageAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	whole := made(t, "-f", "qcow2", "FILE", "4M")
	for name, c := range map[string]struct {
		text []byte
		says string
	}{"packed.raw": {append([]byte("\x1f\x8b"), make([]byte, 1<<20)...), "a gzip file"}, "page.raw": {[]byte("<html>"), "a web page"}} {
		f.ok(os.WriteFile(f.at(name), c.text, 0o600))
		vm := f.vm()
		vm.Spec.Disks = []fleet.Disk{f.disk("from-" + name)}
		vm.Spec.Disks[0].Image = &fleet.Volref{PoolID: f.pool.ID, Volume: name}
		if err := f.ApplyVM(t.Context(), order(vm, f.pool)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.ok(os.WriteFile(f.at("whole.qcow2"), whole, 0o600))
	f.ok(f.ApplyPool(t.Context(), f.pool))
	spoilt := bytes.Clone(whole)
	copy(spoilt[40:48], "\x00\x00\x00\x7f\x00\x00\x00\x00") // its table is far outside
	f.ok(os.WriteFile(f.at("whole.qcow2"), spoilt, 0o600))
	err := f.CloneVolume(t.Context(), f.work("copy.qcow2", fleet.VolumeOrder{Source: "whole.qcow2"}))
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "outside the file") {
		t.Errorf("a clone of what is not sound: %v", err)
	}
}

// Without the agent's leave, nothing of the host itself or its private networks is downloaded.
func TestDownloadsComeFromOutside(t *testing.T) {
	t.Parallel()
	needHost(t)
	b, err := libvirt.Open(t.Context(), libvirt.Options{Roots: roots, Book: book})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	err = f.FetchVolume(t.Context(), f.work("image.raw", serve(t, []byte("secret"))))
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "fetchFrom") {
		t.Errorf("from the host itself: %v", err)
	}
	if left := f.leftIn(); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}
