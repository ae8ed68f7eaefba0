package conformance

import (
	"context"
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// Remote is a file on a server for a host to download.
type Remote string

const (
	RemoteQcow2 Remote = "qcow2" // of 4 MiB
	RemoteISO   Remote = "iso"
	RemotePage  Remote = "page"   // a web page instead of an image
	RemoteWrong Remote = "wrong"  // the file's checksum differs
	RemoteGone  Remote = "gone"   // no server listens at the address
	RemoteStuck Remote = "silent" // the server sends a part of the file, and then nothing

	// For the following files the checksum is the address of a checksum file.
	RemoteSums   Remote = "sums"   // a qcow2 image as above
	RemoteNoSum  Remote = "nosum"  // the file contains only checksums of other files
	RemoteNoFile Remote = "nofile" // no server listens at the file's address
)

func (h *host) download(p fleet.Pool, name string, what Remote) (order fleet.VolumeParams, told *progress, do func(context.Context) error) {
	h.t.Helper()
	url, checksum := h.h.Remote(h.t, what)
	in := h.volumeJob(p, name, fleet.VolumeParams{URL: url, Checksum: checksum})
	if slices.Contains([]Remote{RemoteSums, RemoteNoSum, RemoteNoFile}, what) {
		in.Order.Checksum, in.Order.ChecksumURL = "", checksum
	}
	told = &progress{}
	in.Progress = told.report
	return in.Order, told, func(ctx context.Context) error { return h.FetchVolume(ctx, in) }
}

func testDownloads(t *testing.T, h *host) {
	p := h.pool()
	for name, what := range map[string]Remote{"image.qcow2": RemoteQcow2, "tools.iso": RemoteISO, "sums.qcow2": RemoteSums} {
		_, told, do := h.download(p, name, what)
		h.must("download "+name, do(h.ctx))
		told.check(t)
		v, ok := h.volume(p, name)
		if !ok || v.Unfinished || v.IsISO() != (what == RemoteISO) || v.IsImage() == v.IsISO() || v.CapacityBytes <= 0 {
			t.Errorf("%s is %+v", name, v)
		}
		h.refused("download to a name that is taken", do(h.ctx), name)
	}
	d := disk(p)
	d.Image = &fleet.Volref{PoolID: p.ID, Volume: "image.qcow2"}
	vm := h.newVM(d)
	vm.Spec.Disks[0].SizeBytes = 4 << 30
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "tools.iso"}
	h.apply(vm)

	for what, says := range map[Remote]string{RemotePage: "a web page", RemoteWrong: "nothing of it was kept", RemoteGone: "connection refused", RemoteNoSum: "no SHA-256 or SHA-512 of", RemoteNoFile: "cannot reach"} {
		_, _, do := h.download(p, "bad.qcow2", what)
		h.refused("download what is "+string(what), do(h.ctx), says)
		h.wantNoVolume(p, "bad.qcow2")
	}
	for _, bad := range []fleet.VolumeParams{
		{},
		{URL: "file:///etc/passwd"},
		{URL: "http://example.org/x.qcow2"},
		{URL: "https://user:secret@example.org/x.qcow2"},
		{URL: "https://example.org/x", Checksum: "md5:00"},
		{URL: "https://example.org/x", ChecksumURL: "http://example.org/SUMS"},
		{URL: "https://example.org/x", ChecksumURL: "file:///etc/passwd"},
	} {
		if err := h.FetchVolume(h.ctx, h.volumeJob(p, "bad.qcow2", bad)); fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("download %+v: %v", bad, err)
		}
	}
}

// The result of the job was lost, and the job is repeated. The file exists, so it is not downloaded again.
func testDownloadOnce(t *testing.T, h *host) {
	p := h.pool()
	url, checksum := h.h.Remote(t, RemoteQcow2)
	var made string
	first := h.volumeJob(p, "image.qcow2", fleet.VolumeParams{URL: url, Checksum: checksum})
	first.RecordFile = func(file string) error { made = file; return nil }
	h.must("download", h.FetchVolume(h.ctx, first))
	again := h.volumeJob(p, "image.qcow2", fleet.VolumeParams{URL: "https://nobody.invalid/image.qcow2"})
	again.RecordedFile = made
	h.must("repeat the job", h.FetchVolume(h.ctx, again))
	h.must("delete", h.DeleteVolume(h.ctx, again))
}

func testDownloadStopped(t *testing.T, h *host) {
	p := h.pool()
	ctx, cancel := context.WithCancel(h.ctx)
	url, checksum := h.h.Remote(t, RemoteStuck)
	in := h.volumeJob(p, "image.qcow2", fleet.VolumeParams{URL: url, Checksum: checksum})
	in.Progress = func(int, string) { cancel() }
	if err := h.FetchVolume(ctx, in); err == nil {
		t.Error("a cancelled download left a volume")
	}
	h.wantNoVolume(p, "image.qcow2")
}
