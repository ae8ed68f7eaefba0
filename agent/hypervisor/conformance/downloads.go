package conformance

import (
	"context"
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// RemoteFile is a file on a server for a host to download.
type RemoteFile string

const (
	RemoteQcow2         RemoteFile = "qcow2" // of 4 MiB
	RemoteISO           RemoteFile = "iso"
	RemoteWebPage       RemoteFile = "page"   // a web page instead of an image
	RemoteWrongChecksum RemoteFile = "wrong"  // the file's checksum differs
	RemoteNoServer      RemoteFile = "gone"   // no server listens at the address
	RemoteStalled       RemoteFile = "silent" // the server sends a part of the file, and then nothing

	// For the following files, ServeFile returns the address of a checksum file instead of a checksum.
	RemoteWithChecksumFile RemoteFile = "sums"   // a qcow2 image as above
	RemoteChecksumMissing  RemoteFile = "nosum"  // the file contains only checksums of other files
	RemoteFileMissing      RemoteFile = "nofile" // no server listens at the file's address
)

func (h *testHost) downloadJob(p fleet.Pool, name string, what RemoteFile) (order fleet.VolumeParams, told *progressRecorder, do func(context.Context) error) {
	h.t.Helper()
	url, checksum := h.harness.ServeFile(h.t, what)
	in := h.newVolumeJob(p, name, fleet.VolumeParams{URL: url, Checksum: checksum})
	if slices.Contains([]RemoteFile{RemoteWithChecksumFile, RemoteChecksumMissing, RemoteFileMissing}, what) {
		in.Params.Checksum, in.Params.ChecksumURL = "", checksum
	}
	told = &progressRecorder{}
	in.Progress = told.report
	return in.Params, told, func(ctx context.Context) error { return h.FetchVolume(ctx, in) }
}

func testDownloads(t *testing.T, h *testHost) {
	p := h.newPool()
	for name, what := range map[string]RemoteFile{"image.qcow2": RemoteQcow2, "tools.iso": RemoteISO, "sums.qcow2": RemoteWithChecksumFile} {
		_, told, do := h.downloadJob(p, name, what)
		h.requireNoError("download "+name, do(h.ctx))
		told.check(t)
		v, ok := h.reportedVolume(p, name)
		if !ok || v.Unfinished || v.IsISO() != (what == RemoteISO) || v.IsImage() == v.IsISO() || v.CapacityBytes <= 0 {
			t.Errorf("the downloaded volume %s is %+v, want a complete disk image or ISO image", name, v)
		}
		h.requireRefusal("download to a name that is taken", do(h.ctx), name)
	}
	d := newDisk(p)
	d.Image = &fleet.Volref{PoolID: p.ID, Volume: "image.qcow2"}
	vm := h.newVM(d)
	vm.Spec.Disks[0].SizeBytes = 4 << 30
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "tools.iso"}
	h.apply(vm)

	for what, says := range map[RemoteFile]string{RemoteWebPage: "a web page", RemoteWrongChecksum: "was deleted", RemoteNoServer: "connection refused", RemoteChecksumMissing: "no SHA-256 or SHA-512 of", RemoteFileMissing: "cannot reach"} {
		_, _, do := h.downloadJob(p, "bad.qcow2", what)
		h.requireRefusal("download what is "+string(what), do(h.ctx), says)
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
		if err := h.FetchVolume(h.ctx, h.newVolumeJob(p, "bad.qcow2", bad)); fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("the error of the invalid download %+v is %v, want fleet.Invalid", bad, err)
		}
	}
}

// The result of the job was lost, and the job is repeated. The file exists, so it is not downloaded again.
func testRepeatedDownload(t *testing.T, h *testHost) {
	p := h.newPool()
	url, checksum := h.harness.ServeFile(t, RemoteQcow2)
	var made string
	first := h.newVolumeJob(p, "image.qcow2", fleet.VolumeParams{URL: url, Checksum: checksum})
	first.RecordFile = func(file string) error { made = file; return nil }
	h.requireNoError("download", h.FetchVolume(h.ctx, first))
	again := h.newVolumeJob(p, "image.qcow2", fleet.VolumeParams{URL: "https://nobody.invalid/image.qcow2"})
	again.RecordedFile = made
	h.requireNoError("repeat the job", h.FetchVolume(h.ctx, again))
	h.requireNoError("delete", h.DeleteVolume(h.ctx, again))
}

func testDownloadCancelled(t *testing.T, h *testHost) {
	p := h.newPool()
	ctx, cancel := context.WithCancel(h.ctx)
	url, checksum := h.harness.ServeFile(t, RemoteStalled)
	in := h.newVolumeJob(p, "image.qcow2", fleet.VolumeParams{URL: url, Checksum: checksum})
	in.Progress = func(int, string) { cancel() }
	if err := h.FetchVolume(ctx, in); err == nil {
		t.Error("a cancelled download left a volume")
	}
	h.wantNoVolume(p, "image.qcow2")
}
